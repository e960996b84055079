//! Layer normalization (Ba, Kiros and Hinton, 2016, section 3), alone or behind a residual sum.
//!
//! For a row `x` of `width` elements, with `mean` and `variance` over the row:
//!
//! ```text
//! scale  = 1 / sqrt(variance + epsilon)
//! y      = (x - mean) scale
//! output = y * gamma + beta
//! ```
//!
//! With `g` the gradient of the output and `h = g * gamma`, the gradients are
//!
//! ```text
//! dx     = scale (h - mean(h) - y * mean(h * y))
//! dgamma = sum over rows of g * y
//! dbeta  = sum over rows of g
//! ```
//!
//! so `y` and `scale` are all that a backward pass needs of the forward pass.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::{Tensor, module};

use crate::{Dropped, add_dropped, widened};

/// Returns `y * gamma + beta` with `y = (x - mean) / sqrt(variance + epsilon)`, over the last axis.
///
/// The variance is the mean of squares (divided by `width`, not `width - 1`). With `g` the gradient
/// of the output and `h = g * gamma`, the gradient of a row of `x` is
/// `(h - mean(h) - y * mean(h * y)) / sqrt(variance + epsilon)`; those of `gamma` and `beta` are
/// the sums over all rows of `g * y` and `g`.
///
/// # Shapes
/// - `input`: `[rows, width]`; `gamma`, `beta`: `[width]`; output: as `input`
///
/// # Examples
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_kernels::layer_norm;
///
/// let device = Device::flex();
/// let input = Tensor::<2>::from_data([[1.0f32, 3.0], [-5.0, 5.0]], &device); // [rows, width]
/// let gamma = Tensor::<1>::ones([2], &device);
/// let beta = Tensor::<1>::zeros([2], &device);
/// let output = layer_norm(input, gamma, beta, 1e-6).into_data();
/// let expected = [-1.0, 1.0, -1.0, 1.0]; // every row on its own
/// for (value, expected) in output.iter::<f32>().zip(expected) {
///     assert!((value - expected).abs() < 1e-5);
/// }
/// ```
pub fn layer_norm(input: Tensor<2>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input) == Some(crate::flex::Mode::Training) {
        return flex::layer_norm(input, gamma, beta, epsilon);
    }
    #[cfg(feature = "gpu")]
    if let Some(output) = gpu::layer_norm(&input, &gamma, &beta, epsilon) {
        return output;
    }
    plain(input, gamma, beta, epsilon)
}

/// Returns [`layer_norm()`] of `residual` plus `input` after dropout; `None` if there is dropout
/// and it has no kernel for these tensors.
///
/// # Shapes
/// - `residual`, `input` and output: `[rows, width]`; `gamma`, `beta`: `[width]`
pub fn residual_norm(
    residual: &Tensor<2>,
    input: &Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    dropped: Option<Dropped>,
) -> Option<Tensor<2>> {
    #[cfg(feature = "gpu")]
    if let Some(output) = gpu::residual_norm(residual, input, &gamma, &beta, epsilon, dropped) {
        return Some(output);
    }
    let sum = match dropped {
        Some(dropped) => add_dropped(residual, input, dropped)?,
        None => residual.clone() + widened(input.clone()),
    };
    Some(layer_norm(sum, gamma, beta, epsilon))
}

/// [`layer_norm()`] by Burn's operation.
fn plain(input: Tensor<2>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<2> {
    module::layer_norm(input, gamma, Some(beta), epsilon)
}
