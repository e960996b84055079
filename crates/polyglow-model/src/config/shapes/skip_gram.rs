//! The complete shape of a skip-gram model.

use crate::config::{ModelConfig, Vocabulary, WIDEST, check_size};
use crate::error::ModelError;

/// The complete shape of a [`crate::SkipGramModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipGramShape {
    /// The sizes and ids that the data decides; both sides are the words.
    pub vocabulary: Vocabulary,
    /// Elements of a word's vector.
    pub d_model: usize,
}

impl ModelConfig {
    /// The complete shape of a skip-gram model over the target's vocabulary.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a width of zero or beyond reason.
    pub fn skip_gram(&self, vocabulary: Vocabulary) -> Result<SkipGramShape, ModelError> {
        let d_model = self.width();
        check_size("model.d_model", d_model, WIDEST)?;
        let words = Vocabulary {
            src_size: vocabulary.tgt_size,
            src_pad_id: vocabulary.tgt_pad_id,
            shared: true,
            ..vocabulary
        };
        Ok(SkipGramShape {
            vocabulary: words,
            d_model,
        })
    }
}

impl SkipGramShape {
    pub(crate) fn forward_flops(&self, [rows, _, candidates]: [usize; 3]) -> f64 {
        2.0 * (rows * candidates * self.d_model) as f64
    }

    /// Elements that a forward pass keeps for the backward pass: the vectors of centers and
    /// candidates, their products, and the logits.
    pub(crate) fn activations(&self, [rows, _, candidates]: [usize; 3]) -> u64 {
        (rows * (self.d_model + candidates * (2 * self.d_model + 3))) as u64
    }
}
