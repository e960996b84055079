//! The complete shape of a decoder-only Transformer.

use super::TransformerConfig;
use crate::attention::AttentionKind;
use crate::config::shape::Shape;
use crate::config::{ModelConfig, Task, Vocabulary};
use crate::error::ModelError;
use crate::init::ParamInit;
use crate::model::{LanguageModel, Model};
use crate::precision::Precision;

/// A model's shape with nothing left open: that of a [`LanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct LmConfig {
    /// The layers, as those of a decoder; the target's vocabulary for both sides.
    pub stack: TransformerConfig,
}

impl ModelConfig {
    /// The complete shape of a language model over the target's vocabulary; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`].
    pub fn lm(&self, vocabulary: Vocabulary) -> Result<LmConfig, ModelError> {
        let one_side =
            Vocabulary { src_size: vocabulary.tgt_size, src_pad_id: vocabulary.tgt_pad_id, shared: true, ..vocabulary };
        // An encoder layer that is not built, for the checks.
        let config = Self { num_encoder_layers: Some(1), ..self.clone() }.transformer(one_side)?;
        Ok(LmConfig { stack: TransformerConfig { num_encoder_layers: 0, ..config } })
    }
}

impl LmConfig {
    /// The layers as they are computed: they have no attention to a source, so they are those of an encoder.
    fn layers(&self) -> TransformerConfig {
        let num_encoder_layers = self.stack.num_decoder_layers;
        TransformerConfig { num_encoder_layers, num_decoder_layers: 0, ..self.stack.clone() }
    }
}

impl Shape for LmConfig {
    fn build(&self, init: ParamInit) -> Model {
        Model::Lm(LanguageModel::build(self, init))
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

    fn max_len(&mut self) -> &mut usize {
        &mut self.stack.max_len
    }

    fn precision(&mut self) -> Option<&mut Precision> {
        Some(&mut self.stack.precision)
    }

    fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        let of_text = kind == AttentionKind::Decoder;
        if of_text { (self.stack.num_decoder_layers, self.stack.num_heads) } else { (0, 0) }
    }

    fn forward_flops(&self, [rows, _, len]: [usize; 3]) -> f64 {
        let logits = 2.0 * (rows * len) as f64 * self.stack.d_model as f64 * self.stack.tgt_vocab_size as f64;
        self.layers().forward_flops([rows, len, 0]) + logits
    }

    fn activations(&self, [rows, _, len]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, 0, len], kernels)
    }
}
