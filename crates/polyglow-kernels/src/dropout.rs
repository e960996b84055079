//! Dropout (Srivastava et al., 2014) on the way into a residual sum.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
#[cfg(feature = "flex")]
mod hash;
#[cfg(feature = "flex")]
pub(crate) mod mask;

use burn::tensor::Tensor;

/// Elements that share a part of a mask, where the mask is of a flat array. Results depend on it:
/// it is not a tuning knob.
#[cfg(any(feature = "flex", feature = "gpu"))]
pub(crate) const MASK_PART: usize = 1 << 13;

/// Which elements are dropped: a function of the key and of their index, so that the backward pass
/// recomputes the mask instead of keeping it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// Probability with which an element is kept, above 0.
    pub keep: f64,
    /// Decides the draw: equal keys give equal masks.
    pub key: u64,
}

/// `residual + input * mask`, where the mask is 0 if an element is dropped and `1 / keep` if not;
/// `None` if there is no kernel for these tensors.
///
/// The gradients are that of the output, of `residual`, and that times the mask, of `input`.
///
/// # Shapes
/// - `residual`, `input` and output: `[rows, d_model]`
pub fn add_dropped(residual: &Tensor<2>, input: &Tensor<2>, dropped: Dropped) -> Option<Tensor<2>> {
    kernel!(add_dropped(residual, input, dropped))
}

/// `input * mask`, as [`add_dropped`] has it; `None` if there is no kernel for these tensors, which
/// is so but on GPUs.
///
/// # Shapes
/// - `input` and output: any
pub fn dropout<const D: usize>(input: &Tensor<D>, dropped: Dropped) -> Option<Tensor<D>> {
    #[cfg(feature = "gpu")]
    return gpu::dropout(input, dropped);
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (input, dropped);
        None
    }
}
