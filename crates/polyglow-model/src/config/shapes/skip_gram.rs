//! The complete shape of a skip-gram model.

use super::keys::SIZES;
use crate::architectures::SkipGramModel;
use crate::config::{Arch, ArchRow, ModelConfig, Shape, Task, Vocabulary, WIDEST, check_size};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of word vectors, by distinguishing the neighbors of a word from random words (Mikolov et
/// al., 2013).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    num_layers: |_| 0,
    ..ArchRow::new(
        "skipgram",
        |_| Task::Words,
        &[SIZES],
        |config, vocabulary| Ok(config.skip_gram(vocabulary)?.into()),
    )
};

impl SkipGramModel {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

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

impl Shape for SkipGramShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::reader(SkipGramModel::build(self, init), *self)
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

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.vocabulary.max_len
    }

    fn set_precision(&mut self, _: Precision) {}

    fn forward_flops(&self, [rows, _, candidates]: [usize; 3]) -> f64 {
        2.0 * (rows * candidates * self.d_model) as f64
    }

    /// The vectors of centers and candidates, their products, and the logits.
    fn activations(&self, [rows, _, candidates]: [usize; 3], _kernels: bool) -> u64 {
        (rows * (self.d_model + candidates * (2 * self.d_model + 3))) as u64
    }
}
