//! The complete shape of a Transformer.

mod layers;

use std::any::Any;

use super::keys::{DECODER, SELF_ATTENTION, SIZES};
use crate::architectures::Transformer;
use crate::attention::AttentionKind;
use crate::config::{
    Activation, Arch, ArchRow, DEEPEST, ModelConfig, Norm, Position, Shape, Sizes, Task,
    TieEmbeddings, Vocabulary, WIDEST, check_dropout, check_size,
};
use crate::error::ModelError;
use crate::loss::prediction::loss_elements;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::parameter::quantization::NamedMatrix;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of the encoder-decoder Transformer (Vaswani et al., 2017).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    attends_to_source: |_| true,
    has_int8: |_| true,
    ..ArchRow::new(
        "transformer",
        |_| Task::Translation,
        &[
            SIZES,
            SELF_ATTENTION,
            DECODER,
            &["num_encoder_layers", "dropout", "position", "output_bias"],
        ],
        |config, vocabulary| {
            config.check_tied(vocabulary)?;
            Ok(config.transformer(vocabulary)?.into())
        },
    )
};

impl Transformer {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

/// The complete shape of a [`crate::Transformer`], and of all models that have its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerShape {
    /// Number of source token ids.
    pub src_vocab_size: usize,
    /// Number of target token ids.
    pub tgt_vocab_size: usize,
    /// The id that pads short source rows; never attended to.
    pub src_pad_id: u32,
    /// The id that pads short target rows; never attended to, and no target.
    pub tgt_pad_id: u32,
    /// Longest sequence with EOS, in tokens; learned positions end here.
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
    /// Position of layer normalization.
    pub norm: Norm,
    /// Encoding of positions.
    pub position: Position,
    /// Shared embedding matrices.
    pub tie_embeddings: TieEmbeddings,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// Precision of matrix products in training.
    pub precision: Precision,
}

impl ModelConfig {
    /// Refuses one matrix for both sides where these have vocabularies of their own.
    pub(super) fn check_tied(&self, vocabulary: Vocabulary) -> Result<(), ModelError> {
        if self.tie_embeddings != TieEmbeddings::All || vocabulary.shared {
            return Ok(());
        }
        Err(ModelError::config(
            "model.tie_embeddings",
            "all",
            "source and target have separate vocabularies; use `\"decoder\"`, or \
             `tokenizer.shared = true`",
        ))
    }

    /// The complete shape of a Transformer for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, heads that do not divide the
    /// width, a dropout outside `[0, 1)`.
    pub fn transformer(&self, vocabulary: Vocabulary) -> Result<TransformerShape, ModelError> {
        let Sizes {
            num_layers,
            d_model,
            d_ff,
            num_heads,
            dropout,
        } = self.sizes();
        let config = TransformerShape {
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
            output_bias: self.output_bias,
            precision: Precision::F32,
        };
        config.validate()?;
        Ok(config)
    }
}

impl TransformerShape {
    fn validate(&self) -> Result<(), ModelError> {
        check_size("model.d_model", self.d_model, WIDEST)?;
        check_size("model.d_ff", self.d_ff, 4 * WIDEST)?;
        check_size("model.num_heads", self.num_heads, self.d_model)?;
        check_size("model.num_encoder_layers", self.num_encoder_layers, DEEPEST)?;
        check_size("model.num_decoder_layers", self.num_decoder_layers, DEEPEST)?;
        check_dropout("model.dropout", self.dropout)?;
        check_dropout("model.attention_dropout", self.attention_dropout)?;
        check_dropout("model.activation_dropout", self.activation_dropout)?;
        if !self.d_model.is_multiple_of(self.num_heads) {
            let reason = format!("must divide `model.d_model = {}`", self.d_model);
            return Err(ModelError::config(
                "model.num_heads",
                self.num_heads,
                reason,
            ));
        }
        if !self.d_model.is_multiple_of(2) && self.position == Position::Sinusoidal {
            return Err(ModelError::config(
                "model.d_model",
                self.d_model,
                "must be even for sinusoidal positions",
            ));
        }
        if !self.head_dim().is_multiple_of(2) && self.position == Position::Rotary {
            let reason = format!(
                "gives {} values per head, which must be even for rotary positions",
                self.head_dim()
            );
            return Err(ModelError::config(
                "model.num_heads",
                self.num_heads,
                reason,
            ));
        }
        Ok(())
    }

    /// The sizes and ids that the data decides.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            src_size: self.src_vocab_size,
            tgt_size: self.tgt_vocab_size,
            shared: self.tie_embeddings == TieEmbeddings::All,
            src_pad_id: self.src_pad_id,
            tgt_pad_id: self.tgt_pad_id,
            max_len: self.max_len,
            image: None,
        }
    }

    /// Width of one attention head: `d_model / num_heads`.
    pub fn head_dim(&self) -> usize {
        self.d_model / self.num_heads
    }
}

impl Shape for TransformerShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::writer(Transformer::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        Task::Translation
    }

    fn d_model(&self) -> usize {
        self.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.vocabulary()
    }

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        let num_layers = match kind {
            AttentionKind::Encoder => self.num_encoder_layers,
            AttentionKind::Decoder | AttentionKind::Cross => self.num_decoder_layers,
        };
        (num_layers, self.num_heads)
    }

    /// Attention counts as a full rectangle, masked positions included.
    fn forward_flops(&self, [rows, src_len, tgt_len]: [usize; 3]) -> f64 {
        let src_len = src_len as f64;
        let tgt_len = tgt_len as f64;
        // Positions of the whole batch.
        let src = rows as f64 * src_len;
        let tgt = rows as f64 * tgt_len;
        let d_model = self.d_model as f64;
        let vocab_size = self.tgt_vocab_size as f64;
        let num_ff_matrices = if self.activation == Activation::Swiglu {
            3.0
        } else {
            2.0
        };
        let inner = num_ff_matrices * self.d_ff as f64 * d_model;
        let square = d_model * d_model;
        // Queries, keys, values and the output take four matrices; cross-attention has its query
        // and output on the target, its keys and values on the source. Scores and contexts take
        // `d_model` for each pair of positions.
        let encoder = src * (4.0 * square + inner + 2.0 * d_model * src_len);
        let decoder =
            tgt * (6.0 * square + inner + 2.0 * d_model * (tgt_len + src_len)) + src * 2.0 * square;
        let layers =
            self.num_encoder_layers as f64 * encoder + self.num_decoder_layers as f64 * decoder;
        2.0 * (layers + tgt * d_model * vocab_size)
    }

    /// With kernels: per position 8 `d_model` in an encoder layer and 12 in a decoder layer (inputs
    /// of projections, queries, keys, values, standardized sums); `d_ff`, or 2 of it with GELU or
    /// Swish and 4 with SwiGLU; an attention weight per head and key; and in the loss the target
    /// vocabulary for some hundred positions, or at every position with a bias of the output.
    /// Without: 12 and 19 `d_model`, and one more for each dropout mask; 2 or 4 `d_ff`; 2 attention
    /// weights; and 3 times the vocabulary at every position. Both add 2 `d_model` in the
    /// embedding.
    fn activations(&self, [rows, src_len, tgt_len]: [usize; 3], kernels: bool) -> u64 {
        let src_len = src_len as u64;
        let tgt_len = tgt_len as u64;
        // Positions of the whole batch.
        let src = rows as u64 * src_len;
        let tgt = rows as u64 * tgt_len;
        let d_model = self.d_model as u64;
        // Kernels compute dropout masks anew.
        let mask = if self.dropout > 0.0 && !kernels {
            d_model
        } else {
            0
        };
        let kept_per_d_ff = match self.activation {
            Activation::Relu if kernels => 1,
            Activation::Relu | Activation::Gelu | Activation::Swish => 2,
            Activation::Swiglu => 4,
        };
        let hidden = kept_per_d_ff * self.d_ff as u64;
        let weights_per_head = if kernels {
            1
        } else {
            2 + u64::from(self.attention_dropout > 0.0)
        };
        let heads = weights_per_head * self.num_heads as u64;
        let [in_encoder, in_decoder] = if kernels { [8, 12] } else { [12, 19] };
        let encoder = src * (in_encoder * d_model + 2 * mask + hidden + heads * src_len);
        let decoder = tgt
            * (in_decoder * d_model + 3 * mask + hidden + heads * (tgt_len + src_len))
            + 2 * src * d_model;
        let embeddings = (src + tgt) * (2 * d_model + mask);
        let loss = loss_elements(tgt, self.tgt_vocab_size, kernels && !self.output_bias);
        self.num_encoder_layers as u64 * encoder
            + self.num_decoder_layers as u64 * decoder
            + embeddings
            + loss
    }

    fn matrices<'m>(&self, model: &'m mut dyn Any) -> Vec<NamedMatrix<'m>> {
        model
            .downcast_mut()
            .map_or_else(Vec::new, Transformer::matrices)
    }
}
