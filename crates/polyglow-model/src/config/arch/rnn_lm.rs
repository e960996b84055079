//! The complete shape of a recurrent language model.

use super::RnnConfig;
use crate::config::shape::Shape;
use crate::config::{ModelConfig, Task, Vocabulary};
use crate::error::ModelError;
use crate::init::ParamInit;
use crate::model::{Model, RecurrentLanguageModel};
use crate::precision::Precision;
use crate::recurrent::attention::Score;

/// A model's shape with nothing left open: that of a [`RecurrentLanguageModel`].
#[derive(Clone, Debug, PartialEq)]
pub struct RnnLmConfig {
    /// The layers, as those of a decoder without attention.
    pub stack: RnnConfig,
}

impl ModelConfig {
    /// The complete shape of a recurrent language model over the target's vocabulary; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, and a dropout outside `[0, 1)`.
    pub fn rnn_lm(&self, vocabulary: Vocabulary) -> Result<RnnLmConfig, ModelError> {
        // An encoder layer that is not built, for the checks.
        let config = Self { num_encoder_layers: Some(1), attention: Some(Score::None), ..self.clone() };
        Ok(RnnLmConfig { stack: RnnConfig { num_encoder_layers: 0, ..config.recurrent(vocabulary)? } })
    }
}

impl Shape for RnnLmConfig {
    fn build(&self, init: ParamInit) -> Model {
        Model::RnnLm(RecurrentLanguageModel::build(self, init))
    }

    fn task(&self) -> Task {
        Task::Language
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.stack.vocabulary
    }

    fn max_len(&mut self) -> &mut usize {
        &mut self.stack.vocabulary.max_len
    }

    fn precision(&mut self) -> Option<&mut Precision> {
        Some(&mut self.stack.precision)
    }

    fn forward_flops(&self, [rows, _, len]: [usize; 3]) -> f64 {
        self.stack.forward_flops([rows, 0, len])
    }

    fn activations(&self, [rows, _, len]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, 0, len], kernels)
    }
}
