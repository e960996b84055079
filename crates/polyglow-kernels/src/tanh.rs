//! The hyperbolic tangent.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Tensor, activation};

/// `y = tanh(x)` of every element; the gradient is `gradient * (1 - y²)`, made from the output
/// alone.
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
