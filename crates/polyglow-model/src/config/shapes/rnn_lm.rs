//! The complete shape of a recurrent language model.

use super::RnnShape;
use super::keys::{CELLS, DECODER, SIZES};
use super::rnn::few_layers;
use crate::architectures::RecurrentLanguageModel;
use crate::config::recurrent::Score;
use crate::config::{Arch, ArchRow, ModelConfig, Shape, Task, Vocabulary};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of the recurrent language model, the network that predicts the next letter (Mikolov et
/// al., 2010).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    num_layers: few_layers,
    resolve: |config| ModelConfig {
        cell: Some(config.cell.unwrap_or_default()),
        ..config.resolve_sizes()
    },
    ..ArchRow::new(
        "rnn-lm",
        |_| Task::Language,
        &[SIZES, DECODER, CELLS, &["dropout"]],
        |config, vocabulary| Ok(config.rnn_lm(vocabulary)?.into()),
    )
};

impl RecurrentLanguageModel {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

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

impl Shape for RnnLmShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::writer(RecurrentLanguageModel::build(self, init), self.clone())
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

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.stack.vocabulary.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.stack.precision = precision;
    }

    fn forward_flops(&self, [rows, _, len]: [usize; 3]) -> f64 {
        self.stack.forward_flops([rows, 0, len])
    }

    fn activations(&self, [rows, _, len]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, 0, len], kernels)
    }
}
