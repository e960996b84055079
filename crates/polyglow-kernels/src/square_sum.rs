//! The sum of squares, whose root is the norm of all gradients: an optimizer clips by it.

#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Tensor;

/// Returns the sums of squares of the parts of a flat tensor, `[parts]`, in their order: their sum
/// is the squared norm.
///
/// On GPUs a part has a fixed size, and the tensor is read once. Elsewhere there is one part, in
/// which rows of `row` elements are summed first; `row` divides the length.
///
/// # Shapes
/// - `values`: `[len]`, outside of the autodiff graph
pub fn square_sums(values: &Tensor<1>, row: usize) -> Tensor<1> {
    #[cfg(feature = "gpu")]
    if let Some(sums) = gpu::square_sums(values) {
        return sums;
    }
    let squares = values.clone() * values.clone();
    squares.reshape([-1, row as i32]).sum_dim(1).sum()
}
