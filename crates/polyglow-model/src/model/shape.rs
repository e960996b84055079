//! What a model is before it has weights.

use burn::tensor::Device;

use super::Model;
use crate::attention::AttentionKind;
use crate::config::{EncoderConfig, RnnConfig, SkipGramConfig, TransformerConfig, VitConfig, Vocabulary};
use crate::encoder_only::EncoderOnly;
use crate::init::ParamInit;
use crate::lm::LanguageModel;
use crate::precision::Precision;
use crate::recurrent::attention::Score;
use crate::rnn::Rnn;
use crate::rnn_lm::RecurrentLanguageModel;
use crate::skip_gram::SkipGramModel;
use crate::transformer::Transformer;
use crate::vit::Vit;

/// The complete shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelShape {
    /// Of an encoder-decoder Transformer.
    Transformer(TransformerConfig),
    /// Of a recurrent encoder-decoder.
    Rnn(RnnConfig),
    /// Of a decoder-only Transformer: its decoder layers, and the target's vocabulary for both sides.
    Lm(TransformerConfig),
    /// Of a recurrent language model, in the same way.
    RnnLm(RnnConfig),
    /// Of word vectors.
    SkipGram(SkipGramConfig),
    /// Of an encoder of text with a head.
    Encoder(EncoderConfig),
    /// Of a Vision Transformer.
    Vit(VitConfig),
}

impl ModelShape {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to train it).
    pub fn init(&self, seed: u64, device: &Device) -> Model {
        self.build(ParamInit::new(seed, device))
    }

    /// A model whose parameters are zeros, until they are replaced by those of a file.
    pub fn blank(&self, device: &Device) -> Model {
        self.build(ParamInit::zeros(device))
    }

    fn build(&self, init: ParamInit) -> Model {
        match self {
            Self::Transformer(config) => Model::Transformer(Transformer::build(config, init)),
            Self::Rnn(config) => Model::Rnn(Rnn::build(config, init)),
            Self::Lm(config) => Model::Lm(LanguageModel::build(config, init)),
            Self::RnnLm(config) => Model::RnnLm(RecurrentLanguageModel::build(config, init)),
            Self::SkipGram(config) => Model::SkipGram(SkipGramModel::build(config, init)),
            Self::Encoder(config) => Model::Encoder(EncoderOnly::build(config, init)),
            Self::Vit(config) => Model::Vit(Vit::build(config, init)),
        }
    }

    /// The same shape with products in another precision.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        match &mut self {
            Self::Transformer(config) | Self::Lm(config) => config.precision = precision,
            Self::Rnn(config) | Self::RnnLm(config) => config.precision = precision,
            // It has no matrix product.
            Self::SkipGram(_) => {}
            Self::Encoder(EncoderConfig { stack, .. }) | Self::Vit(VitConfig { stack, .. }) => {
                stack.precision = precision;
            }
        }
        self
    }

    /// The same shape for sequences of at least this length, in tokens with the end mark.
    #[must_use]
    pub fn with_room_for(mut self, len: usize) -> Self {
        let max_len = match &mut self {
            Self::Transformer(config) | Self::Lm(config) => &mut config.max_len,
            Self::Rnn(config) | Self::RnnLm(config) => &mut config.vocabulary.max_len,
            Self::SkipGram(config) => &mut config.vocabulary.max_len,
            Self::Encoder(EncoderConfig { stack, .. }) | Self::Vit(VitConfig { stack, .. }) => &mut stack.max_len,
        };
        *max_len = len.max(*max_len);
        self
    }

    /// Width of every hidden state.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Transformer(config) | Self::Lm(config) => config.d_model,
            Self::Rnn(config) | Self::RnnLm(config) => config.d_model,
            Self::SkipGram(config) => config.d_model,
            Self::Encoder(EncoderConfig { stack, .. }) | Self::Vit(VitConfig { stack, .. }) => stack.d_model,
        }
    }

    /// What the data decided.
    pub fn vocabulary(&self) -> Vocabulary {
        match self {
            Self::Transformer(config) | Self::Lm(config) => config.vocabulary(),
            Self::Rnn(config) | Self::RnnLm(config) => config.vocabulary,
            Self::SkipGram(config) => config.vocabulary,
            Self::Encoder(config) => config.stack.vocabulary(),
            Self::Vit(config) => Vocabulary { image: Some(config.image), ..config.stack.vocabulary() },
        }
    }

    /// How many layers and heads have weights of a kind.
    pub fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        match (self, kind) {
            (
                Self::Transformer(config)
                | Self::Encoder(EncoderConfig { stack: config, .. })
                | Self::Vit(VitConfig { stack: config, .. }),
                AttentionKind::Encoder,
            ) => (config.num_encoder_layers, config.num_heads),
            (Self::Transformer(config), _) | (Self::Lm(config), AttentionKind::Decoder) => {
                (config.num_decoder_layers, config.num_heads)
            }
            (Self::Rnn(config), AttentionKind::Cross) if config.attention != Score::None => (1, 1),
            _ => (0, 0),
        }
    }

    /// Floating-point operations of the matrix products of a forward pass: two for each number that is multiplied.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        match self {
            Self::Transformer(config) => config.forward_flops(batch),
            Self::Rnn(config) => config.forward_flops(batch),
            Self::Lm(config) => config.text_flops(batch),
            Self::RnnLm(config) => config.forward_flops([batch[0], 0, batch[2]]),
            Self::SkipGram(config) => config.forward_flops(batch),
            Self::Encoder(config) => config.forward_flops(batch),
            Self::Vit(config) => config.forward_flops(batch),
        }
    }

    /// About how many numbers a forward pass keeps for the backward pass, with the kernels of polyglow-kernels or without.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        match self {
            Self::Transformer(config) => config.activations(batch, kernels),
            Self::Rnn(config) => config.activations(batch, kernels),
            // The layers are encoder layers, of the target's length.
            Self::Lm(config) => config.activations([batch[0], 0, batch[2]], kernels),
            Self::RnnLm(config) => config.activations([batch[0], 0, batch[2]], kernels),
            Self::SkipGram(config) => config.activations(batch),
            Self::Encoder(config) => config.activations(batch, kernels),
            Self::Vit(config) => config.activations(batch, kernels),
        }
    }
}
