//! Dropout (Srivastava et al., 2014) on the way into a residual sum.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
pub(crate) mod mask;

use burn::tensor::Tensor;

/// Which numbers are dropped: a function of the key and of their place, so nothing is kept for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// Probability with which a number is kept, above 0.
    pub keep: f64,
    /// Decides the draw.
    pub key: u64,
}

/// `residual + x * mask`, with the mask 0 where a number is dropped and `1 / keep` elsewhere; none where the tensors are
/// not where the kernel is.
///
/// # Shapes
/// - `residual`, `input`: the same; output: the same
pub fn add_dropped(residual: &Tensor<3>, input: &Tensor<3>, dropped: Dropped) -> Option<Tensor<3>> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(input) && crate::flex::has_kernels(residual) {
        return Some(flex::add_dropped(residual.clone(), input.clone(), dropped));
    }
    let _ = (residual, input, dropped);
    None
}
