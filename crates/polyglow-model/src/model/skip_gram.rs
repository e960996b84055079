//! Word vectors: a word tells the words beside it from others (skip-gram with negative sampling; Mikolov et al., 2013,
//! "Distributed representations of words and phrases and their compositionality", section 2.2).

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use super::{Architecture, Side};
use crate::config::{ModelShape, SkipGramConfig};
use crate::embedding::Embedding;
use crate::init::ParamInit;
use crate::prediction::Prediction;

/// Two vectors for each word: as the word that is looked at, and as one beside it.
#[derive(Module, Debug)]
pub struct SkipGramModel {
    /// Vectors of words as centers: what is learned for.
    pub embedding: Embedding,
    /// Vectors of words as context.
    pub context: Embedding,
    on_host: bool,
    #[module(skip)]
    config: SkipGramConfig,
}

impl SkipGramModel {
    /// A model with initial values of one kind.
    pub(crate) fn build(config: &SkipGramConfig, mut init: ParamInit) -> Self {
        let SkipGramConfig { vocabulary, d_model } = *config;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, d_model, &mut init),
            context: Embedding::new(vocabulary.tgt_size, d_model, &mut init),
            on_host: init.on_host(),
            config: *config,
        }
    }

    /// For each candidate the logits that it is drawn from the noise, 0, and that it stands beside the center, the product
    /// of both vectors. So the cross-entropy over these two classes is `-log σ(center · candidate)` for class 1 and
    /// `-log σ(-center · candidate)` for class 0 (equation 4).
    ///
    /// # Shapes
    /// - `centers`: `[rows, 1]`; `candidates`: `[rows, count]`; output: `[rows * count, 2]`
    pub fn forward(&self, centers: Tensor<2, Int>, candidates: Tensor<2, Int>) -> Tensor<2> {
        let [rows, count] = candidates.dims();
        let product = self.embedding.rows(centers) * self.context.rows(candidates);
        let scores = product.sum_dim(2).reshape([rows * count, 1]);
        Tensor::cat(vec![scores.zeros_like(), scores], 1)
    }
}

impl Architecture for SkipGramModel {
    fn shape(&self) -> ModelShape {
        ModelShape::SkipGram(self.config)
    }

    fn on_host(&self) -> bool {
        self.on_host
    }

    fn embedding(&self, _: Side) -> &Embedding {
        &self.embedding
    }

    fn predict(&self, centers: Tensor<2, Int>, candidates: Tensor<2, Int>) -> Prediction<'_> {
        Prediction::Scores(self.forward(centers, candidates))
    }
}
