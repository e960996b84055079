//! The hyperbolic tangent of every element, `y = tanh(x)`, with the gradient `g * (1 - y²)`.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Tensor, activation};

/// Returns `y = tanh(x)` of every element. With `g` the gradient of the output, that of the input
/// is `g * (1 - y²)`, which needs the output alone.
///
/// # Shapes
/// - `input`: any; output: as `input`
pub fn tanh<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input).is_some() {
        return flex::tanh(input);
    }
    activation::tanh(input)
}
