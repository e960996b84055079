//! The complete shape of a decoder-only Transformer.

use super::TransformerShape;
use crate::config::{ModelConfig, Vocabulary};
use crate::error::ModelError;

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

    pub(crate) fn forward_flops(&self, [rows, _, len]: [usize; 3]) -> f64 {
        let logits = 2.0
            * (rows * len) as f64
            * self.stack.d_model as f64
            * self.stack.tgt_vocab_size as f64;
        self.layers().forward_flops([rows, len, 0]) + logits
    }
}
