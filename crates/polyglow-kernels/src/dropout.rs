//! Dropout (Srivastava et al., 2014) on the way into a residual sum.

pub(crate) mod composed;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;
mod hash;
#[cfg(feature = "flex")]
pub(crate) mod mask;

use burn::tensor::{Device, Tensor};

/// Which elements are dropped: a function of the key and of their index, so that the backward pass recomputes the mask
/// instead of keeping it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// Probability with which an element is kept, above 0.
    pub keep: f64,
    /// Decides the draw: equal keys give equal masks.
    pub key: u64,
}

/// `residual + input * mask`, where the mask is 0 if an element is dropped and `1 / keep` if not; `None` if there is no
/// kernel for these tensors.
///
/// The gradients are that of the output, of `residual`, and that times the mask, of `input`.
///
/// # Shapes
/// - `residual`, `input` and output: `[batch, len, d_model]`
pub fn add_dropped(residual: &Tensor<3>, input: &Tensor<3>, dropped: Dropped) -> Option<Tensor<3>> {
    kernel!(add_dropped(residual, input, dropped))
}

/// A mask by itself, 0 or `1 / keep`, of integer operations of the device, whichever it is.
pub fn dropout_mask<const D: usize>(shape: [usize; D], dropped: Dropped, device: &Device) -> Tensor<D> {
    composed::ComposedMask::new(shape, dropped, device).scaled()
}
