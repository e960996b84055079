//! The complete shape of a recurrent language model.

use super::RnnShape;
use crate::config::recurrent::Score;
use crate::config::{ModelConfig, Vocabulary};
use crate::error::ModelError;

/// The complete shape of a [`crate::RecurrentLanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct RnnLmShape {
    /// The layers, as those of a decoder without attention.
    pub stack: RnnShape,
}

impl ModelConfig {
    /// The complete shape of a recurrent language model over the target's vocabulary; products are
    /// f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, and a dropout outside `[0, 1)`.
    pub fn rnn_lm(&self, vocabulary: Vocabulary) -> Result<RnnLmShape, ModelError> {
        // The checks require an encoder layer; none is built.
        let config = Self {
            num_encoder_layers: Some(1),
            attention: Some(Score::None),
            ..self.clone()
        };
        Ok(RnnLmShape {
            stack: RnnShape {
                num_encoder_layers: 0,
                ..config.recurrent(vocabulary)?
            },
        })
    }
}
