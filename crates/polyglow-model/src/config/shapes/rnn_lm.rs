//! The complete shape of a recurrent language model.

use super::RnnShape;
use crate::config::{ModelConfig, Vocabulary};
use crate::error::ModelError;
use crate::recurrent::attention::Score;

/// A model's shape with nothing left open: that of a [`RecurrentLanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct RnnLmShape {
    /// The layers, as those of a decoder without attention.
    pub stack: RnnShape,
}

impl ModelConfig {
    /// The complete shape of a recurrent language model over the target's vocabulary; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, and a dropout outside `[0, 1)`.
    pub fn rnn_lm(&self, vocabulary: Vocabulary) -> Result<RnnLmShape, ModelError> {
        // An encoder layer that is not built, for the checks.
        let config = Self { num_encoder_layers: Some(1), attention: Some(Score::None), ..self.clone() };
        Ok(RnnLmShape { stack: RnnShape { num_encoder_layers: 0, ..config.recurrent(vocabulary)? } })
    }
}
