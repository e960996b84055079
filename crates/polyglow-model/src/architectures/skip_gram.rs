//! Word vectors: each word learns to distinguish its neighbors from random words (skip-gram with
//! negative sampling; Mikolov et al., 2013, "Distributed representations of words and phrases and
//! their compositionality", section 2.2).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::architecture::{Inspect, Predict};
use crate::config::SkipGramShape;
use crate::embedding::Embedding;
use crate::inputs::Words;
use crate::loss::prediction::Prediction;
use crate::parameter::init::ParamInit;
use crate::side::Side;

/// A model with two vectors per word: one as the center, one as a neighbor.
#[derive(Module, Debug)]
pub struct SkipGramModel {
    /// Vectors of words as centers: the word vectors that the model is trained for.
    pub embedding: Embedding,
    /// Vectors of words as context.
    pub context: Embedding,
    #[module(skip)]
    shape: SkipGramShape,
}

impl SkipGramModel {
    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &SkipGramShape, mut init: ParamInit) -> Self {
        let SkipGramShape {
            vocabulary,
            d_model,
        } = *shape;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, d_model, &mut init),
            context: Embedding::new(vocabulary.tgt_size, d_model, &mut init),
            shape: *shape,
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &SkipGramShape {
        &self.shape
    }
}

impl Predict<Words> for SkipGramModel {
    /// Returns two logits for each candidate: 0 for class 0, a random word, and the product of both
    /// vectors for class 1, a neighbor of the center. So the cross-entropy over these two classes
    /// is `-log σ(center · candidate)` for class 1 and `-log σ(-center · candidate)` for class 0
    /// (equation 4).
    ///
    /// # Shapes
    /// - scores: `[rows * count, 2]`
    fn predict(
        &self,
        Words {
            centers,
            candidates,
        }: Words,
    ) -> Prediction<'_> {
        // [rows, 1, d_model] * [rows, count, d_model]: each candidate with its center.
        let [rows, count] = candidates.dims();
        let product = self.embedding.rows(centers) * self.context.rows(candidates);
        let scores = product.sum_dim(2).reshape([rows * count, 1]);
        Prediction::Scores(Tensor::cat(vec![scores.zeros_like(), scores], 1))
    }
}

impl Inspect for SkipGramModel {
    type Inputs = Words;

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
