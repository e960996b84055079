//! The sum of squares, from which the norm of all gradients is made.

#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Tensor;

/// The sums of squares of the parts of a flat tensor, in their order, `[parts]`: on GPUs in one
/// pass over it. Elsewhere it is one part, in which rows of this length, which divides the
/// tensor's, are summed first.
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
