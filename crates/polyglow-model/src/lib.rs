//! Models on Burn, the encoder-decoder Transformer first of all: ids to logits, to a loss, or to
//! hypotheses.
//!
//! Model code is the same on every backend; the [`burn::tensor::Device`] that a model is built on
//! decides where it runs. A [`ModelConfig`] chooses the architecture of a [`Model`]; those of other
//! programs implement the traits of [`architecture`] and [`registry`].
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use polyglow_model::{ModelConfig, Pair, Predict, Preset, Vocabulary};
//!
//! let config = ModelConfig {
//!     preset: Some(Preset::Tiny),
//!     d_model: Some(16),
//!     ..ModelConfig::default()
//! };
//! let vocabulary = Vocabulary {
//!     src_size: 20,
//!     tgt_size: 20,
//!     shared: true,
//!     src_pad_id: 0,
//!     tgt_pad_id: 0,
//!     max_len: 8,
//!     image: None,
//! };
//! let device = Device::flex().autodiff();
//! let model = config.shape(vocabulary)?.init(7, &device);
//!
//! let src = Tensor::<2, Int>::from_data([[5, 6, 2]], &device);
//! let tgt_in = Tensor::<2, Int>::from_data([[1, 8, 9]], &device);
//! let tgt_out = Tensor::<1, Int>::from_data([8, 9, 2], &device);
//! let pair = Pair { src: src.into(), tgt_in };
//! assert_eq!(model.predict(pair.clone()).logits().dims(), [3, 20]);
//! let loss = model.predict(pair).loss(tgt_out, 0.1, vocabulary.tgt_pad_id);
//! let gradients = loss.loss_sum.backward();
//! # let _ = gradients;
//! # Ok::<(), polyglow_model::ModelError>(())
//! ```

pub mod architecture;
mod architectures;
mod config;
mod ensemble;
mod error;
mod host;
mod inputs;
mod layers;
pub mod loss;
mod model;
pub mod parameter;
pub mod random;
pub mod registry;
pub mod search;
mod side;
mod stacks;

pub use architecture::{Generate, Inspect, Predict};
pub use architectures::*;
pub use attention::AttentionMaps;
pub use config::*;
pub use ensemble::mean_of_probabilities;
pub use error::ModelError;
pub use host::computes_on_host;
pub use inputs::{Image, Inputs, Pair, Source, Text, Words};
use layers::precision;
pub use layers::{
    attention, dropout, embedding, feed_forward, layer_norm, linear, mask, patches, pooling,
    position, residual, rms_norm, weight,
};
pub use loss::prediction::{Prediction, Projection};
pub use loss::{LossOutput, Targets, alignment_loss, cross_entropy};
pub use model::{Cache, Model};
pub use parameter::{init, quantization};
pub use precision::Precision;

pub use side::Side;
pub use stacks::{cache, decoder, encoder, recurrent};

/// The device of the unit tests.
#[cfg(test)]
fn test_device() -> burn::tensor::Device {
    burn::tensor::Device::flex()
}
