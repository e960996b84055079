//! The complete shape of an encoder of text that ends in a head.

use serde::{Deserialize, Serialize};

use super::keys::{CELLS, SELF_ATTENTION, SIZES};
use super::{RnnShape, TransformerShape};
use crate::architectures::{EncoderOnly, Rnn};
use crate::attention::AttentionKind;
use crate::config::recurrent::Score;
use crate::config::{Arch, ArchRow, ModelConfig, Shape, Task, Vocabulary};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of an encoder with a head, for labels of texts, tags of words or masked tokens (Devlin et
/// al., 2019).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    resolve: ModelConfig::resolve_encoder,
    ..ArchRow::new(
        "encoder",
        |config| config.head.unwrap_or_default().task(),
        &[
            SIZES,
            SELF_ATTENTION,
            CELLS,
            &["num_encoder_layers", "dropout", "position"],
            &["body", "head", "pooling"],
        ],
        |config, vocabulary| Ok(config.encoder(vocabulary)?.into()),
    )
};

impl EncoderOnly {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

/// The head on an encoder of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// A linear map from the pooled states to the labels.
    #[default]
    Classification,
    /// The transposed embedding at every position, which predicts the token there (Devlin et al.,
    /// 2019, section 3.1).
    MaskedLm,
    /// A linear map from the state at every position to the tags of words.
    Tagging,
}

impl Head {
    /// The task that an encoder with this head is trained for.
    pub fn task(self) -> Task {
        match self {
            Self::Classification => Task::Labels,
            Self::MaskedLm => Task::Masked,
            Self::Tagging => Task::Tags,
        }
    }

    /// Returns whether the head reads the state at every position, and not the pooled states.
    pub fn reads_positions(self) -> bool {
        match self {
            Self::Classification => false,
            Self::MaskedLm | Self::Tagging => true,
        }
    }

    /// Returns whether the head has weights of its own, and not those of the embedding.
    pub fn has_weights(self) -> bool {
        match self {
            Self::Classification | Self::Tagging => true,
            Self::MaskedLm => false,
        }
    }
}

/// The layers of an encoder of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Layers of self-attention.
    #[default]
    Transformer,
    /// Bidirectional recurrent layers.
    Rnn,
}

/// The pooling of the states of all positions into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of the states, without padding.
    #[default]
    Mean,
    /// The state of a trained class vector before the others (Devlin et al., 2019; Dosovitskiy et
    /// al., 2021).
    Class,
    /// The last state of each direction of recurrent layers.
    Last,
}

/// The complete shape of an [`crate::EncoderOnly`].
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderShape {
    /// The layers, unless they are recurrent; the target's vocabulary is the labels, or that of the
    /// text.
    pub stack: TransformerShape,
    /// The layers, if they are recurrent.
    pub recurrent: Option<RnnShape>,
    /// The pooling; with a head that reads every position, it only decides whether there is a class
    /// vector.
    pub pooling: Pooling,
    /// The head.
    pub head: Head,
}

impl ModelConfig {
    /// Whether an encoder of text is recurrent.
    fn has_recurrent_body(&self) -> bool {
        self.body == Some(Body::Rnn)
    }

    /// Fills in the keys of an encoder of text.
    fn resolve_encoder(&self) -> Self {
        let mut resolved = self.resolve_sizes();
        resolved.pooling = Some(self.pooling());
        resolved.head = Some(self.head.unwrap_or_default());
        if self.has_recurrent_body() {
            let recurrent = self.with_arch(Rnn::ARCH).resolve();
            resolved.num_encoder_layers = recurrent.num_encoder_layers;
            resolved.cell = recurrent.cell;
            // Recurrent layers have neither.
            resolved.d_ff = self.d_ff;
            resolved.num_heads = self.num_heads;
        }
        resolved
    }

    fn pooling(&self) -> Pooling {
        self.pooling.unwrap_or(if self.has_recurrent_body() {
            Pooling::Last
        } else {
            Pooling::Mean
        })
    }

    /// The complete shape of an encoder of text with its head; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`], or with recurrent layers as [`Self::rnn`]; keys of the other kind
    /// of layers.
    pub fn encoder(&self, vocabulary: Vocabulary) -> Result<EncoderShape, ModelError> {
        let pooling = self.pooling();
        let head = self.head.unwrap_or_default();
        self.refuse_keys_of_the_other_body()?;
        if !self.has_recurrent_body() {
            return Ok(EncoderShape {
                stack: self.stack(vocabulary)?,
                recurrent: None,
                pooling,
                head,
            });
        }
        let recurrent = Self {
            attention: Some(Score::None),
            ..self.with_arch(Rnn::ARCH)
        };
        let layers = recurrent.rnn(vocabulary)?;
        // Only the vocabulary and the width of the stack are used; the rest just passes its checks.
        let stack = Self {
            d_ff: Some(1),
            num_heads: Some(1),
            num_encoder_layers: Some(layers.num_encoder_layers),
            ..self.clone()
        };
        Ok(EncoderShape {
            stack: stack.stack(vocabulary)?,
            recurrent: Some(layers),
            pooling,
            head,
        })
    }

    /// Refuses keys that were given but have no effect with this kind of layers.
    fn refuse_keys_of_the_other_body(&self) -> Result<(), ModelError> {
        let default = Self::default();
        let for_transformer = [
            ("model.d_ff", self.d_ff.is_some()),
            ("model.num_heads", self.num_heads.is_some()),
            ("model.attention_dropout", self.attention_dropout > 0.0),
            ("model.activation_dropout", self.activation_dropout > 0.0),
            ("model.activation", self.activation != default.activation),
            ("model.norm", self.norm != default.norm),
            ("model.position", self.position != default.position),
            ("model.pooling", self.pooling == Some(Pooling::Class)),
        ];
        let for_rnn = [
            ("model.cell", self.cell.is_some()),
            ("model.cell_size", self.cell_size.is_some()),
            ("model.bias", self.bias.is_some()),
            ("model.pooling", self.pooling == Some(Pooling::Last)),
        ];
        let (foreign, other) = if self.has_recurrent_body() {
            (&for_transformer[..], "transformer")
        } else {
            (&for_rnn[..], "rnn")
        };
        let Some((key, _)) = foreign.iter().find(|(_, is_given)| *is_given) else {
            return Ok(());
        };
        let reason = format!("belongs to `model.body = \"{other}\"`; leave it out");
        Err(ModelError::config(key, "...", reason))
    }

    /// The layers of an encoder without a decoder.
    pub(super) fn stack(&self, vocabulary: Vocabulary) -> Result<TransformerShape, ModelError> {
        // The checks require a decoder layer; none is built.
        let config = Self {
            num_decoder_layers: Some(1),
            ..self.clone()
        };
        Ok(TransformerShape {
            num_decoder_layers: 0,
            ..config.transformer(vocabulary)?
        })
    }
}

impl EncoderShape {
    /// Sequence length of a text, with the class position if there is one.
    fn len(&self, src_len: usize) -> usize {
        src_len + usize::from(self.pooling == Pooling::Class)
    }

    /// Rows of logits in a batch.
    fn num_logits(&self, [rows, src_len, _]: [usize; 3]) -> usize {
        if self.head.reads_positions() {
            rows * src_len
        } else {
            rows
        }
    }
}

impl Shape for EncoderShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::reader(EncoderOnly::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        self.head.task()
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.stack.vocabulary()
    }

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.stack.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.stack.precision = precision;
        if let Some(layers) = &mut self.recurrent {
            layers.precision = precision;
        }
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        if kind == AttentionKind::Encoder && self.recurrent.is_none() {
            (self.stack.num_encoder_layers, self.stack.num_heads)
        } else {
            (0, 0)
        }
    }

    fn forward_flops(&self, batch @ [rows, src_len, _]: [usize; 3]) -> f64 {
        let logits =
            2.0 * (self.num_logits(batch) * self.stack.d_model * self.stack.tgt_vocab_size) as f64;
        let layers = match &self.recurrent {
            Some(layers) => layers.forward_flops([rows, src_len, 0]),
            None => self.stack.forward_flops([rows, self.len(src_len), 0]),
        };
        layers + logits
    }

    fn activations(&self, batch @ [rows, src_len, _]: [usize; 3], kernels: bool) -> u64 {
        let kept_per_logit = if kernels { 1 } else { 3 };
        let logits = (self.num_logits(batch) * self.stack.tgt_vocab_size) as u64 * kept_per_logit;
        let layers = match &self.recurrent {
            Some(layers) => layers.activations([rows, src_len, 0], kernels),
            None => self
                .stack
                .activations([rows, self.len(src_len), 0], kernels),
        };
        layers + logits
    }
}
