//! The hyperbolic tangent.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Tensor, activation};

/// `tanh(x)` of every number.
///
/// # Shapes
/// - `input`: any; output: as `input`
pub fn tanh<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(&input) {
        return flex::tanh(input);
    } else if crate::flex::is_flex(&input) {
        return flex::apply(input);
    }
    activation::tanh(input)
}
