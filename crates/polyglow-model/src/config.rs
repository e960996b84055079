//! The `[model]` section: sizes and variants of the Transformer, and the presets they start from.

use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::precision::Precision;

/// The architectures that can be trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// The encoder-decoder Transformer (Vaswani et al., 2017).
    #[default]
    Transformer,
}

/// A named set of sizes; every single one can be overridden by its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// 4+4 layers, `d_model` 128, `d_ff` 256, 4 heads, dropout 0.3 (Wu et al., 2021, for Multi30k).
    Tiny,
    /// 3+3 layers, `d_model` 256, `d_ff` 1024, 4 heads, dropout 0.1.
    Small,
    /// 6+6 layers, `d_model` 512, `d_ff` 2048, 8 heads, dropout 0.1 (Vaswani et al., 2017, table 3, *base*).
    Base,
    /// 6+6 layers, `d_model` 1024, `d_ff` 4096, 16 heads, dropout 0.3 (Vaswani et al., 2017, table 3, *big*).
    Big,
}

/// The non-linearity inside the feed-forward block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `max(0, x)`, the paper's choice.
    #[default]
    Relu,
    /// `x Φ(x)` with the exact normal distribution (Hendrycks and Gimpel, 2016).
    Gelu,
    /// `silu(x W_gate) * (x W_inner)`: a third matrix of the same size (Shazeer, 2020).
    Swiglu,
}

/// Where layer normalization stands around each sublayer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// `norm(x + sublayer(x))`, as in the paper; wants a warm-up.
    #[default]
    Post,
    /// `x + sublayer(norm(x))` with one more norm after the last layer; trains more easily (Xiong et al., 2020).
    Pre,
}

/// How a token's position enters the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// Fixed sines and cosines added to the embedding (Vaswani et al., 2017, section 3.5).
    #[default]
    Sinusoidal,
    /// A trained vector per position added to the embedding; nothing beyond `max_len` positions.
    Learned,
    /// Queries and keys of self-attention are rotated by their position (Su et al., 2021).
    Rotary,
}

/// Which embedding matrices are one and the same parameter (Press and Wolf, 2017).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TieEmbeddings {
    /// Source embedding, target embedding and output projection are three matrices.
    None,
    /// Target embedding and output projection are one matrix.
    Decoder,
    /// All three are one matrix, as in the paper; needs a shared vocabulary.
    #[default]
    All,
}

/// The `[model]` section as the user writes it: a preset, and keys that override its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// The architecture; default `"transformer"`.
    pub arch: Arch,
    /// Sizes to start from: `"tiny"`, `"small"`, `"base"` or `"big"`; default `"small"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Width of every hidden state, in numbers per token; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_model: Option<usize>,
    /// Width inside the feed-forward block; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
    /// Attention heads, a divisor of `d_model`; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_heads: Option<usize>,
    /// Layers of the encoder; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_encoder_layers: Option<usize>,
    /// Layers of the decoder; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_decoder_layers: Option<usize>,
    /// Probability of dropping a number of a sublayer's output or of an embedding; default by preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Probability of dropping an attention weight; default 0.
    pub attention_dropout: f64,
    /// Probability of dropping a number after the feed-forward activation; default 0.
    pub activation_dropout: f64,
    /// Feed-forward non-linearity: `"relu"`, `"gelu"` or `"swiglu"`; default `"relu"`.
    pub activation: Activation,
    /// Place of layer normalization: `"post"` or `"pre"`; default `"post"`.
    pub norm: Norm,
    /// Positions: `"sinusoidal"`, `"learned"` or `"rotary"`; default `"sinusoidal"`.
    pub position: Position,
    /// Shared embedding matrices: `"none"`, `"decoder"` or `"all"`; default `"all"` (`"decoder"` suits separate vocabularies).
    pub tie_embeddings: TieEmbeddings,
}

/// A model's shape with nothing left open: what [`crate::Transformer::new`] builds.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerConfig {
    /// Number of source token ids.
    pub src_vocab_size: usize,
    /// Number of target token ids.
    pub tgt_vocab_size: usize,
    /// The id that fills up short source rows; never attended to.
    pub src_pad_id: u32,
    /// The id that fills up short target rows; never attended to, and no target.
    pub tgt_pad_id: u32,
    /// Longest sequence with its end mark, in tokens; learned positions end here.
    pub max_len: usize,
    /// Width of every hidden state.
    pub d_model: usize,
    /// Width inside the feed-forward block.
    pub d_ff: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Layers of the encoder.
    pub num_encoder_layers: usize,
    /// Layers of the decoder.
    pub num_decoder_layers: usize,
    /// Dropout on sublayer outputs and embeddings, a probability.
    pub dropout: f64,
    /// Dropout on attention weights, a probability.
    pub attention_dropout: f64,
    /// Dropout after the feed-forward activation, a probability.
    pub activation_dropout: f64,
    /// Feed-forward non-linearity.
    pub activation: Activation,
    /// Place of layer normalization.
    pub norm: Norm,
    /// How positions enter.
    pub position: Position,
    /// Shared embedding matrices.
    pub tie_embeddings: TieEmbeddings,
    /// In what matrix products are computed while the model is trained.
    pub precision: Precision,
}

/// What the data decides about a model: vocabularies, the pad id, the longest sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Number of source token ids.
    pub src_size: usize,
    /// Number of target token ids.
    pub tgt_size: usize,
    /// Whether source and target ids mean the same tokens.
    pub shared: bool,
    /// The id that fills up short source rows.
    pub src_pad_id: u32,
    /// The id that fills up short target rows.
    pub tgt_pad_id: u32,
    /// Longest sequence with its end mark, in tokens.
    pub max_len: usize,
}

impl Preset {
    /// `(num_layers, d_model, d_ff, num_heads, dropout)`, with as many decoder as encoder layers.
    fn sizes(self) -> (usize, usize, usize, usize, f64) {
        match self {
            Self::Tiny => (4, 128, 256, 4, 0.3),
            Self::Small => (3, 256, 1024, 4, 0.1),
            Self::Base => (6, 512, 2048, 8, 0.1),
            Self::Big => (6, 1024, 4096, 16, 0.3),
        }
    }
}

impl ModelConfig {
    /// Fills every key that a preset decides, so that the result says all it means.
    #[must_use]
    pub fn resolve(&self) -> Self {
        let preset = self.preset.unwrap_or(Preset::Small);
        let (num_layers, d_model, d_ff, num_heads, dropout) = preset.sizes();
        Self {
            preset: Some(preset),
            d_model: Some(self.d_model.unwrap_or(d_model)),
            d_ff: Some(self.d_ff.unwrap_or(d_ff)),
            num_heads: Some(self.num_heads.unwrap_or(num_heads)),
            num_encoder_layers: Some(self.num_encoder_layers.unwrap_or(num_layers)),
            num_decoder_layers: Some(self.num_decoder_layers.unwrap_or(num_layers)),
            dropout: Some(self.dropout.unwrap_or(dropout)),
            ..self.clone()
        }
    }

    /// Checks every value that can be checked without the data.
    ///
    /// # Errors
    /// [`ModelError::Config`] names the key, its value and the reason.
    pub fn validate(&self) -> Result<(), ModelError> {
        let vocabulary =
            Vocabulary { src_size: 8, tgt_size: 8, shared: true, src_pad_id: 0, tgt_pad_id: 0, max_len: 8 };
        self.transformer(vocabulary).map(|_| ())
    }

    /// The complete shape of the model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, heads that do not divide the width, a dropout
    /// outside `[0, 1)`, or tied embeddings over vocabularies that are not shared.
    pub fn transformer(&self, vocabulary: Vocabulary) -> Result<TransformerConfig, ModelError> {
        let preset = self.preset.unwrap_or(Preset::Small);
        let (num_layers, d_model, d_ff, num_heads, dropout) = preset.sizes();
        let config = TransformerConfig {
            src_vocab_size: vocabulary.src_size,
            tgt_vocab_size: vocabulary.tgt_size,
            src_pad_id: vocabulary.src_pad_id,
            tgt_pad_id: vocabulary.tgt_pad_id,
            max_len: vocabulary.max_len,
            d_model: self.d_model.unwrap_or(d_model),
            d_ff: self.d_ff.unwrap_or(d_ff),
            num_heads: self.num_heads.unwrap_or(num_heads),
            num_encoder_layers: self.num_encoder_layers.unwrap_or(num_layers),
            num_decoder_layers: self.num_decoder_layers.unwrap_or(num_layers),
            dropout: self.dropout.unwrap_or(dropout),
            attention_dropout: self.attention_dropout,
            activation_dropout: self.activation_dropout,
            activation: self.activation,
            norm: self.norm,
            position: self.position,
            tie_embeddings: self.tie_embeddings,
            precision: Precision::F32,
        };
        config.validate()?;
        if config.tie_embeddings == TieEmbeddings::All && !vocabulary.shared {
            return Err(ModelError::config(
                "model.tie_embeddings",
                "all",
                "source and target have separate vocabularies; use `\"decoder\"`, or `tokenizer.shared = true`",
            ));
        }
        Ok(config)
    }
}

impl TransformerConfig {
    fn validate(&self) -> Result<(), ModelError> {
        const WIDEST: usize = 1 << 16;
        let sizes = [
            ("model.d_model", self.d_model, WIDEST),
            ("model.d_ff", self.d_ff, WIDEST * 4),
            ("model.num_heads", self.num_heads, self.d_model),
            ("model.num_encoder_layers", self.num_encoder_layers, 1024),
            ("model.num_decoder_layers", self.num_decoder_layers, 1024),
        ];
        if let Some((key, value, most)) = sizes.into_iter().find(|&(_, value, most)| value == 0 || value > most) {
            return Err(ModelError::config(key, value, format!("must be from 1 to {most}")));
        }
        if !self.d_model.is_multiple_of(self.num_heads) {
            let reason = format!("must divide `model.d_model = {}`", self.d_model);
            return Err(ModelError::config("model.num_heads", self.num_heads, reason));
        }
        if !self.d_model.is_multiple_of(2) && self.position == Position::Sinusoidal {
            return Err(ModelError::config("model.d_model", self.d_model, "must be even for sinusoidal positions"));
        }
        if !self.head_dim().is_multiple_of(2) && self.position == Position::Rotary {
            let reason = format!("leaves {} numbers a head, which must be even for rotary positions", self.head_dim());
            return Err(ModelError::config("model.num_heads", self.num_heads, reason));
        }
        let probabilities = [
            ("model.dropout", self.dropout),
            ("model.attention_dropout", self.attention_dropout),
            ("model.activation_dropout", self.activation_dropout),
        ];
        match probabilities.into_iter().find(|(_, value)| !(0.0..1.0).contains(value)) {
            Some((key, value)) => Err(ModelError::config(key, value, "must be a probability, at least 0 and below 1")),
            None => Ok(()),
        }
    }

    /// Width of one attention head: `d_model / num_heads`.
    pub fn head_dim(&self) -> usize {
        self.d_model / self.num_heads
    }
}
