//! The affine map over the last axis that every projection of the model is made of.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::init::ParamInit;
use crate::precision::Precision;

/// `x W + b` over the last axis.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[d_in, d_out]`.
    pub weight: Param<Tensor<2>>,
    /// `[d_out]`; the projection to the vocabulary has none.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    precision: Precision,
}

impl Linear {
    /// Xavier-uniform weights and a bias of zero.
    pub fn new(d_in: usize, d_out: usize, init: &mut ParamInit) -> Self {
        Self::fused(d_in, d_out, 1, init)
    }

    /// `blocks` projections to `d_out` side by side in one matrix `[d_in, blocks * d_out]`, each initialized as if alone.
    pub fn fused(d_in: usize, d_out: usize, blocks: usize, init: &mut ParamInit) -> Self {
        let weight = init.xavier([d_in, blocks * d_out], d_out);
        Self { weight, bias: Some(init.constant(blocks * d_out, 0.0)), precision: init.precision() }
    }

    /// The same projection without a bias.
    pub fn without_bias(d_in: usize, d_out: usize, init: &mut ParamInit) -> Self {
        Self { weight: init.xavier([d_in, d_out], d_out), bias: None, precision: init.precision() }
    }

    /// Applies the projection to every position at once.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_in]`; output: `[batch, len, d_out]`
    pub fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        let [batch, len, d_in] = input.dims();
        let [_, d_out] = self.weight.dims();
        // One matrix product over all positions: a batched one would run row block by row block on the CPU.
        let flat = input.reshape([batch * len, d_in]);
        self.rows(flat).reshape([batch, len, d_out])
    }

    /// The same for rows.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_in]`; output: `[rows, d_out]`
    pub fn rows(&self, input: Tensor<2>) -> Tensor<2> {
        self.precision.linear(input, self.weight.val(), self.bias.as_ref().map(Param::val))
    }

    /// Whether the factors of its product with this input are rounded.
    pub(crate) fn rounds<const D: usize>(&self, input: &Tensor<D>) -> bool {
        self.precision.rounds(input)
    }
}
