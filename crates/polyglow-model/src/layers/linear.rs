//! The affine map over the last axis that every projection of the model is made of.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use polyglow_kernels::{
    Activation, Dropped, Factors, Packed, activated_linear, int8_linear, int8_linear_relu,
};

pub use polyglow_kernels::widened;

use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::weight::Weight;

/// `x W + b` over the last axis.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::linear::Linear;
///
/// let device = Device::flex();
/// let layer = Linear::new(8, 3, &mut ParamInit::new(1, &device));
/// let states = Tensor::<3>::ones([2, 5, 8], &device);
/// assert_eq!(layer.forward(states).dims(), [2, 5, 3]);
/// ```
#[derive(Module, Debug)]
pub struct Linear {
    /// `[d_in, d_out]`.
    pub weight: Weight,
    /// `[d_out]`; `None` in the projection to the vocabulary.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    packed: Packed,
    #[module(skip)]
    precision: Precision,
}

impl Linear {
    /// A projection with Xavier-uniform weights and a bias of zero.
    pub fn new(d_in: usize, d_out: usize, init: &mut ParamInit) -> Self {
        Self::fused(d_in, d_out, 1, init)
    }

    /// A layer of `blocks` projections to `d_out`, side by side in one matrix
    /// `[d_in, blocks * d_out]`, each initialized as if alone.
    pub fn fused(d_in: usize, d_out: usize, blocks: usize, init: &mut ParamInit) -> Self {
        Self::side_by_side(d_in, &vec![d_out; blocks], init).with_bias(init)
    }

    /// A projection with Xavier-uniform weights and without a bias.
    pub fn without_bias(d_in: usize, d_out: usize, init: &mut ParamInit) -> Self {
        Self::side_by_side(d_in, &[d_out], init)
    }

    /// A layer of projections to each of `widths`, side by side in one matrix
    /// `[d_in, sum of widths]`, each initialized as if alone, without a bias.
    pub fn side_by_side(d_in: usize, widths: &[usize], init: &mut ParamInit) -> Self {
        Self {
            weight: Weight::Float(init.xavier_blocks(d_in, widths)),
            bias: None,
            packed: Packed::default(),
            precision: init.precision(),
        }
    }

    /// Gives the layer a bias of zeros, which is the next parameter of `init`.
    ///
    /// # Panics
    /// If the weights are quantized.
    #[must_use]
    pub fn with_bias(mut self, init: &mut ParamInit) -> Self {
        let weight = self.weight.float().expect("new weights are not quantized");
        let [_, d_out] = weight.dims();
        self.bias = Some(init.constant(d_out, 0.0));
        self
    }

    /// Applies the projection to every position at once.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_in]`; output: `[batch, len, d_out]`
    pub fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        let [batch, len, d_in] = input.dims();
        // One matrix product over all positions: a batched one would run row block by row block on
        // the CPU.
        let output = self.rows(input.reshape([batch * len, d_in]));
        let [_, d_out] = output.dims();
        output.reshape([batch, len, d_out])
    }

    /// Applies the projection to every row, with an output in f32.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_in]`; output: `[rows, d_out]`
    pub fn rows(&self, input: Tensor<2>) -> Tensor<2> {
        widened(self.narrow(input))
    }

    /// As [`Self::rows`], but on GPUs in training with 16 bits the output stays in that format,
    /// which kernels read; [`widened`] converts it to f32.
    ///
    /// # Shapes
    /// - as [`Self::rows`]
    pub fn narrow(&self, input: Tensor<2>) -> Tensor<2> {
        match &self.weight {
            Weight::Float(weight) => {
                self.precision
                    .linear(input, weight.val(), self.bias(), &self.packed)
            }
            Weight::Int8(weight) => int8_linear(input, weight.matrix(), self.bias()),
        }
    }

    /// Rounds an input once for all projections that read it, see [`polyglow_kernels::round_once`].
    ///
    /// # Shapes
    /// - `input`: `[rows, d_in]`
    pub fn round_once(&self, input: &Tensor<2>) {
        polyglow_kernels::round_once(input, self.precision.factors(input));
    }

    /// Computes `dropout(activation(rows))` in one operation; `None` if there is no kernel for
    /// these weights on this device.
    ///
    /// # Shapes
    /// - as [`Self::narrow`]
    pub fn activated(
        &self,
        input: &Tensor<2>,
        activation: Activation,
        dropped: Option<Dropped>,
    ) -> Option<Tensor<2>> {
        match (&self.weight, self.bias()) {
            (Weight::Int8(weight), bias) if activation == Activation::Relu && dropped.is_none() => {
                Some(int8_linear_relu(input.clone(), weight.matrix(), bias))
            }
            (Weight::Float(weight), Some(bias)) => {
                let factors = self.precision.factors(input);
                activated_linear(
                    input,
                    &weight.val(),
                    &bias,
                    activation,
                    dropped,
                    factors,
                    &self.packed,
                )
            }
            _ => None,
        }
    }

    /// The matrix, if [`Self::rows`] of `input` is nothing but the product with it, and the format
    /// that both factors are rounded to.
    pub(crate) fn matrix(&self, input: &Tensor<2>) -> Option<(Tensor<2>, Factors)> {
        let (weight, _) = self.parts().filter(|_| self.bias.is_none())?;
        Some((weight, self.precision.factors(input)))
    }

    /// The matrix and the bias; `None` if the weights are quantized.
    pub(crate) fn parts(&self) -> Option<(Tensor<2>, Option<Tensor<1>>)> {
        Some((self.weight.float()?, self.bias()))
    }

    fn bias(&self) -> Option<Tensor<1>> {
        self.bias.as_ref().map(Param::val)
    }
}

/// Projections side by side, with a bias if the config of their layer says so.
pub(crate) fn projection(
    d_in: usize,
    widths: &[usize],
    has_bias: bool,
    init: &mut ParamInit,
) -> Linear {
    let linear = Linear::side_by_side(d_in, widths, init);
    if has_bias {
        linear.with_bias(init)
    } else {
        linear
    }
}
