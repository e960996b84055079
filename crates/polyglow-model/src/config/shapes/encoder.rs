//! The complete shape of an encoder of text that ends in a head.

use serde::{Deserialize, Serialize};

use super::TransformerShape;
use super::vit::PATCH_SIZE;
use crate::config::{Arch, ModelConfig, Vocabulary};
use crate::error::ModelError;

/// What stands on the encoder of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// A linear map from the pooled states to the labels.
    #[default]
    Classification,
    /// The embedding, transposed, at every position: which token stood there (Devlin et al., 2019, section 3.1).
    MaskedLm,
}

/// How the states of all positions become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean, without padding.
    #[default]
    Mean,
    /// The state of a trained class vector before the others (Devlin et al., 2019; Dosovitskiy et al., 2021).
    Class,
}

/// The complete shape of an [`crate::EncoderOnly`].
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderShape {
    /// The layers; the target's vocabulary is the labels, or that of the text.
    pub stack: TransformerShape,
    /// How states become one; with a masked-token head, only whether there is a class vector.
    pub pooling: Pooling,
    /// What stands on it.
    pub head: Head,
}

impl ModelConfig {
    /// Fills in the keys of encoders that end in a head.
    pub(in crate::config) fn resolve_head(self) -> Self {
        let is_vit = self.arch == Arch::Vit;
        Self {
            pooling: Some(self.pooling.unwrap_or_default()),
            head: if is_vit { self.head } else { Some(self.head.unwrap_or_default()) },
            patch_size: if is_vit { Some(self.patch_size.unwrap_or(PATCH_SIZE)) } else { self.patch_size },
            ..self
        }
    }

    /// The complete shape of an encoder of text with its head; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`].
    pub fn encoder(&self, vocabulary: Vocabulary) -> Result<EncoderShape, ModelError> {
        let stack = self.stack(vocabulary)?;
        Ok(EncoderShape { stack, pooling: self.pooling.unwrap_or_default(), head: self.head.unwrap_or_default() })
    }

    /// The layers of an encoder without a decoder.
    pub(super) fn stack(&self, vocabulary: Vocabulary) -> Result<TransformerShape, ModelError> {
        // The checks want a decoder layer; none is built.
        let config = Self { num_decoder_layers: Some(1), ..self.clone() }.transformer(vocabulary)?;
        Ok(TransformerShape { num_decoder_layers: 0, ..config })
    }
}

impl EncoderShape {
    /// Sequence length of a text, with the class position if there is one.
    fn len(&self, src_len: usize) -> usize {
        src_len + usize::from(self.pooling == Pooling::Class)
    }

    /// Rows of logits in a batch.
    fn num_logits(&self, [rows, src_len, _]: [usize; 3]) -> usize {
        match self.head {
            Head::Classification => rows,
            Head::MaskedLm => rows * src_len,
        }
    }

    pub(crate) fn forward_flops(&self, batch @ [rows, src_len, _]: [usize; 3]) -> f64 {
        let logits = 2.0 * (self.num_logits(batch) * self.stack.d_model * self.stack.tgt_vocab_size) as f64;
        self.stack.forward_flops([rows, self.len(src_len), 0]) + logits
    }

    pub(crate) fn activations(&self, batch @ [rows, src_len, _]: [usize; 3], kernels: bool) -> u64 {
        let logits = (self.num_logits(batch) * self.stack.tgt_vocab_size) as u64 * if kernels { 1 } else { 3 };
        self.stack.activations([rows, self.len(src_len), 0], kernels) + logits
    }
}
