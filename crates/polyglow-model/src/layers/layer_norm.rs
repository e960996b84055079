//! Layer normalization (Ba, Kiros and Hinton, 2016).

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use polyglow_kernels::{layer_norm, residual_norm, widened};

use crate::dropout::Dropout;
use crate::parameter::init::ParamInit;

/// Added to the variance before the square root; PyTorch's default.
const EPSILON: f64 = 1e-5;

/// `(x - mean) / sqrt(variance + 1e-5) * gamma + beta` over the last axis.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::layer_norm::LayerNorm;
///
/// let device = Device::flex();
/// let norm = LayerNorm::new(2, &mut ParamInit::new(1, &device));
/// let output = norm.forward(Tensor::<2>::from_data([[1.0, 7.0]], &device));
/// let output = output.into_data().try_to_vec::<f32>().unwrap();
/// assert!((output[0] + 1.0).abs() < 1e-5 && (output[1] - 1.0).abs() < 1e-5);
/// ```
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// `[d_model]`, starts at 1.
    pub gamma: Param<Tensor<1>>,
    /// `[d_model]`, starts at 0.
    pub beta: Param<Tensor<1>>,
}

impl LayerNorm {
    /// A norm with `gamma` 1 and `beta` 0, which only standardizes.
    pub fn new(d_model: usize, init: &mut ParamInit) -> Self {
        Self {
            gamma: init.constant(d_model, 1.0),
            beta: init.constant(d_model, 0.0),
        }
    }

    /// Normalizes every row.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        layer_norm(input, self.gamma.val(), self.beta.val(), EPSILON)
    }

    /// Normalizes the sum of `residual` and of `input` after dropout; `input` may be in the format
    /// of [`Linear::narrow`](crate::linear::Linear::narrow).
    ///
    /// # Shapes
    /// - both: `[rows, d_model]`; output: as they are
    pub fn forward_sum(
        &self,
        residual: Tensor<2>,
        input: Tensor<2>,
        dropout: &Dropout,
    ) -> Tensor<2> {
        let dropped = dropout.draw(&input);
        let fused = residual_norm(
            &residual,
            &input,
            self.gamma.val(),
            self.beta.val(),
            EPSILON,
            dropped,
        );
        fused.unwrap_or_else(|| self.forward(residual + dropout.forward(widened(input))))
    }
}
