//! Layer normalization (Ba, Kiros and Hinton, 2016).

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Tensor, module};

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis.
///
/// # Shapes
/// - `input`: `[batch, len, width]`; `gamma`, `beta`: `[width]`; output: as `input`
pub fn layer_norm(input: Tensor<3>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(&input) {
        return flex::layer_norm(input, gamma, beta, epsilon);
    }
    plain(input, gamma, beta, epsilon)
}

fn plain(input: Tensor<3>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<3> {
    module::layer_norm(input, gamma, Some(beta), epsilon)
}
