//! Token embeddings, scaled by `sqrt(d_model)` (Vaswani et al., 2017, section 3.4).

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use polyglow_kernels::embedding;

use crate::init::ParamInit;
use crate::precision::Precision;

/// One trained vector per token id.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab_size, d_model]`.
    pub weight: Param<Tensor<2>>,
    #[module(skip)]
    precision: Precision,
}

impl Embedding {
    /// Normal with standard deviation `d_model^-0.5`, so that scaled embeddings have variance 1.
    pub fn new(vocab_size: usize, d_model: usize, init: &mut ParamInit) -> Self {
        let weight = init.normal([vocab_size, d_model], (d_model as f64).powf(-0.5));
        Self { weight, precision: init.precision() }
    }

    /// `weight[id] * sqrt(d_model)`.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let [_, d_model] = self.weight.dims();
        embedding(self.weight.val(), ids, (d_model as f64).sqrt())
    }

    /// Scores of every token for each hidden state: the product with the same matrix, transposed.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, d_model]`; output: `[rows, vocab_size]`
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        self.precision.linear_transposed(hidden, self.weight.val())
    }
}
