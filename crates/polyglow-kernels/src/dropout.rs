//! Dropout (Srivastava et al., 2014): `input * mask`, alone or on the way into a residual sum,
//! where an element of the mask is 0 with probability `1 - keep` and otherwise `1 / keep`.
//!
//! The mask is a function of a key and of the index of an element, so no mask is stored: the
//! backward pass computes it again, and the CPU and GPUs compute the same one.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
#[cfg(feature = "flex")]
mod hash;
#[cfg(feature = "flex")]
pub(crate) mod mask;

use burn::tensor::Tensor;

/// Elements in a part of the mask of a flat array: on the CPU, a task. Results depend on it: it is
/// not a tuning knob.
#[cfg(any(feature = "flex", feature = "gpu"))]
pub(crate) const MASK_PART: usize = 1 << 13;

/// The parameters of a dropout mask. An element is dropped depending on the key and on its index,
/// so that the backward pass recomputes the mask instead of keeping it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// The probability with which an element is kept, above 0.
    pub keep: f64,
    /// The seed of the mask: equal keys give equal masks.
    pub key: u64,
}

/// Returns `residual + input * mask`, where the mask is 0 if an element is dropped and `1 / keep`
/// if not; `None` if there is no kernel for these tensors.
///
/// With `g` the gradient of the output, the gradients are `g` of `residual` and `g * mask` of
/// `input`.
///
/// # Shapes
/// - `residual`, `input` and output: `[rows, d_model]`
pub fn add_dropped(residual: &Tensor<2>, input: &Tensor<2>, dropped: Dropped) -> Option<Tensor<2>> {
    kernel!(add_dropped(residual, input, dropped))
}

/// Returns `input * mask`, as in [`add_dropped`]; `None` if there is no kernel for these tensors,
/// as everywhere except on GPUs.
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
