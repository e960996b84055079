//! The encoder-decoder Transformer on Burn: ids to logits, to a loss, or to hypotheses.
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
mod encoder_only;
pub mod feed_forward;
pub mod init;
pub mod layer_norm;
pub mod linear;
mod lm;
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
mod rnn;
mod rnn_lm;
pub mod search;
mod skip_gram;
mod transformer;
mod vit;
pub mod weight;

pub use config::{
    Activation, Arch, EncoderConfig, Head, ImageShape, ModelConfig, Norm, Pooling, Position, Preset, RnnConfig,
    SkipGramConfig, Task, TieEmbeddings, TransformerConfig, VitConfig, Vocabulary,
};
pub use encoder_only::EncoderOnly;
pub use ensemble::mean_of_probabilities;
pub use error::ModelError;
pub use lm::{LanguageModel, TextCache};
pub use loss::{LossOutput, alignment_loss, cross_entropy};
pub use model::{Cache, Model, ModelShape, Side};
pub use precision::Precision;
pub use prediction::{Prediction, Projection};
pub use rnn::{Rnn, RnnCache};
pub use rnn_lm::{RecurrentLanguageModel, States};
pub use skip_gram::SkipGramModel;
pub use transformer::{AttentionMaps, Memory, Transformer};
pub use vit::Vit;

/// The device of the unit tests.
#[cfg(test)]
fn test_device() -> burn::tensor::Device {
    burn::tensor::Device::flex()
}
