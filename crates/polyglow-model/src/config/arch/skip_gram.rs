//! The complete shape of a skip-gram model.

use crate::config::shape::Shape;
use crate::config::{ModelConfig, Task, Vocabulary, WIDEST, check_size};
use crate::error::ModelError;
use crate::init::ParamInit;
use crate::model::{Model, SkipGramModel};
use crate::precision::Precision;

/// In place of a padding target, of which there are none: neither of the classes *noise* and *context*.
const NO_CLASS: u32 = 2;

/// A model's shape with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipGramConfig {
    /// What the data decides; both sides are the words.
    pub vocabulary: Vocabulary,
    /// Numbers of a word's vector.
    pub d_model: usize,
}

impl ModelConfig {
    /// The complete shape of a skip-gram model over the target's vocabulary.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a width of zero or beyond reason.
    pub fn skip_gram(&self, vocabulary: Vocabulary) -> Result<SkipGramConfig, ModelError> {
        let d_model = self.d_model.unwrap_or(self.sizes().d_model);
        check_size("model.d_model", d_model, WIDEST)?;
        let words = Vocabulary {
            src_size: vocabulary.tgt_size,
            src_pad_id: vocabulary.tgt_pad_id,
            tgt_pad_id: NO_CLASS,
            shared: true,
            ..vocabulary
        };
        Ok(SkipGramConfig { vocabulary: words, d_model })
    }
}

impl Shape for SkipGramConfig {
    fn build(&self, init: ParamInit) -> Model {
        Model::SkipGram(SkipGramModel::build(self, init))
    }

    fn task(&self) -> Task {
        Task::Words
    }

    fn d_model(&self) -> usize {
        self.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    fn max_len(&mut self) -> &mut usize {
        &mut self.vocabulary.max_len
    }

    fn precision(&mut self) -> Option<&mut Precision> {
        None
    }

    fn forward_flops(&self, [rows, _, candidates]: [usize; 3]) -> f64 {
        2.0 * (rows * candidates * self.d_model) as f64
    }

    /// Numbers that a forward pass keeps for the backward pass: the vectors of centers and candidates, their products, and
    /// the logits.
    fn activations(&self, [rows, _, candidates]: [usize; 3], _: bool) -> u64 {
        (rows * (self.d_model + candidates * (2 * self.d_model + 3))) as u64
    }
}
