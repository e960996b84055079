//! Models on Burn, the encoder-decoder Transformer first of all: ids to logits, to a loss, or to hypotheses.
//!
//! Model code is the same on every backend; the [`burn::tensor::Device`] it is built on decides where it runs.

mod config;
mod ensemble;
mod error;

pub mod attention;
pub mod cache;
pub mod decoder;
pub mod dropout;
pub mod embedding;
pub mod encoder;
pub mod feed_forward;
pub mod init;
pub mod layer_norm;
pub mod linear;
pub mod loss;
pub mod mask;
mod model;
pub mod parameter;
pub mod pooling;
pub mod position;
mod precision;
mod prediction;
pub mod quantization;
pub mod random;
pub mod recurrent;
pub mod residual;
pub mod search;
pub mod weight;

pub use config::*;
pub use ensemble::mean_of_probabilities;
pub use error::ModelError;
pub use loss::{LossOutput, alignment_loss, cross_entropy};
pub use model::*;
pub use precision::Precision;
pub use prediction::{Prediction, Projection};

/// The device of the unit tests.
#[cfg(test)]
fn test_device() -> burn::tensor::Device {
    burn::tensor::Device::flex()
}
