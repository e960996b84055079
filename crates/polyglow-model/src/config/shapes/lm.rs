//! The complete shape of a decoder-only Transformer.

use super::TransformerShape;
use super::keys::{DECODER, SELF_ATTENTION, SIZES};
use crate::architectures::LanguageModel;
use crate::attention::AttentionKind;
use crate::config::{Arch, ArchRow, ModelConfig, Shape, Task, Vocabulary};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of the decoder-only Transformer, a language model of one-sided text (Radford et al.,
/// 2018).
pub(in crate::config) static ROW: ArchRow = ArchRow::new(
    "lm",
    |_| Task::Language,
    &[SIZES, SELF_ATTENTION, DECODER, &["dropout", "position"]],
    |config, vocabulary| Ok(config.lm(vocabulary)?.into()),
);

impl LanguageModel {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

/// The complete shape of a [`crate::LanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct LmShape {
    /// The layers, as those of a decoder; the target's vocabulary for both sides.
    pub stack: TransformerShape,
}

impl ModelConfig {
    /// The complete shape of a language model over the target's vocabulary; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`].
    pub fn lm(&self, vocabulary: Vocabulary) -> Result<LmShape, ModelError> {
        let one_side = Vocabulary {
            src_size: vocabulary.tgt_size,
            src_pad_id: vocabulary.tgt_pad_id,
            shared: true,
            ..vocabulary
        };
        // The checks require an encoder layer; none is built.
        let config = Self {
            num_encoder_layers: Some(1),
            ..self.clone()
        };
        Ok(LmShape {
            stack: TransformerShape {
                num_encoder_layers: 0,
                ..config.transformer(one_side)?
            },
        })
    }
}

impl LmShape {
    /// The layers as they cost: without cross-attention, they are those of an encoder.
    fn layers(&self) -> TransformerShape {
        let num_encoder_layers = self.stack.num_decoder_layers;
        TransformerShape {
            num_encoder_layers,
            num_decoder_layers: 0,
            ..self.stack.clone()
        }
    }
}

impl Shape for LmShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::writer(LanguageModel::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        Task::Language
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
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        match kind {
            AttentionKind::Decoder => (self.stack.num_decoder_layers, self.stack.num_heads),
            AttentionKind::Encoder | AttentionKind::Cross => (0, 0),
        }
    }

    fn forward_flops(&self, [rows, _, len]: [usize; 3]) -> f64 {
        let logits = 2.0
            * (rows * len) as f64
            * self.stack.d_model as f64
            * self.stack.tgt_vocab_size as f64;
        self.layers().forward_flops([rows, len, 0]) + logits
    }

    fn activations(&self, [rows, _, len]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, 0, len], kernels)
    }
}
