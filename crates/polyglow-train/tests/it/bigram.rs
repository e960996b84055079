//! A model of a program's own, for tests.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use polyglow_model::embedding::Embedding;
use polyglow_model::linear::Linear;
use polyglow_model::{Generate, Pair, Predict, Prediction, Projection, Source};

/// Predicts the next token from the last one alone.
#[derive(Module, Debug)]
pub(crate) struct Bigram {
    pub(crate) embedding: Embedding,
    pub(crate) output: Linear,
}

impl Predict<Pair> for Bigram {
    fn predict(&self, pair: Pair) -> Prediction<'_> {
        let states = self.embedding.forward(pair.tgt_in);
        Projection::Own(&self.output).project(states.flatten(0, 1))
    }
}

impl Generate for Bigram {
    type Cache = ();

    fn start(&self, _: Source) {}

    fn advance(&self, ids: Tensor<2, Int>, (): &mut ()) -> Tensor<2> {
        let states = self.embedding.forward(ids);
        Projection::Own(&self.output)
            .project(states.flatten(0, 1))
            .logits()
    }

    fn select((): &mut (), _: &[usize], _: &Device) {}
}
