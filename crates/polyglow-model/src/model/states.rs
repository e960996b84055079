//! What a model makes of a text before it predicts anything: the vectors of its vocabulary, and its states layer by layer.

use burn::tensor::{Device, Int, Tensor};

use super::Model;
use crate::config::{Task, Vocabulary};
use crate::embedding::Embedding;
use crate::weight::Weight;

/// One side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What a translation is made from.
    Src,
    /// The translation; the only side of a text.
    Tgt,
}

impl Model {
    /// The side that it reads before it predicts anything, or as it predicts where there is only one.
    pub fn reading_side(&self) -> Side {
        match self.task() {
            Task::Translation | Task::Labels | Task::Images => Side::Src,
            Task::Language | Task::Words | Task::Masked => Side::Tgt,
        }
    }

    /// The vectors of a side's tokens; of a model with one side the same for both.
    ///
    /// # Panics
    /// It reads images, which have no tokens.
    pub fn embedding(&self, side: Side) -> &Embedding {
        self.architecture().embedding(side)
    }

    /// The vector of every token of a side.
    ///
    /// # Shapes
    /// - output: `[vocab_size, d_model]`, on `device`
    ///
    /// # Panics
    /// As [`Self::embedding`].
    pub fn vectors(&self, side: Side, device: &Device) -> Tensor<2> {
        let embedding = self.embedding(side);
        if let Weight::Float(weight) = &embedding.weight {
            return weight.val();
        }
        let Vocabulary { src_size, tgt_size, .. } = self.vocabulary();
        let vocab_size = if side == Side::Src { src_size } else { tgt_size };
        let ids = Tensor::<1, Int>::from_data(&(0..vocab_size as i32).collect::<Vec<_>>()[..], device);
        embedding.rows(ids.unsqueeze()).squeeze_dim(0)
    }

    /// What stands at each position of a text on [`Self::reading_side`]: first the token's own vector, which knows
    /// neither place nor context, then the state after each layer, from the lowest. Of an encoder-decoder the layers are
    /// the encoder's.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`, with padding behind; output: `[batch, len, d_model]` each
    ///
    /// # Panics
    /// As [`Self::embedding`].
    pub fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let embedded = self.embedding(self.reading_side()).forward(ids.clone());
        [vec![embedded], self.architecture().states(ids)].concat()
    }
}
