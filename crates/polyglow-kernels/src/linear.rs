//! The affine map over rows that most of a Transformer's arithmetic is in.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::Tensor;

#[cfg(feature = "flex")]
pub(crate) use flex::{LinearState, Sizes};

/// Which side of a weight matrix is which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[d_in, d_out]`.
    InOut,
    /// `[d_out, d_in]`.
    OutIn,
}

/// `x W + b` for every row, without `b` where there is none.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`; output: `[rows, d_out]`
pub fn linear(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(&input) {
        return flex::linear(input, weight, bias, Layout::InOut);
    } else if crate::flex::is_flex(&input) {
        return flex::apply(input, weight, bias, Layout::InOut);
    }
    burn::tensor::module::linear(input, weight, bias)
}

/// `x Wᵀ` for every row: the output projection where it shares its matrix with the embedding.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_out, d_in]`; output: `[rows, d_out]`
pub fn linear_transposed(input: Tensor<2>, weight: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(&input) {
        return flex::linear(input, weight, None, Layout::OutIn);
    } else if crate::flex::is_flex(&input) {
        return flex::apply(input, weight, None, Layout::OutIn);
    }
    input.matmul(weight.transpose())
}
