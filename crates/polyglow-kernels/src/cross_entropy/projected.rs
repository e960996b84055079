//! Cross-entropy from hidden states: the projection to the vocabulary and the loss in one operation.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Int, Tensor};

use crate::{Factors, Layout, LossOutput, cross_entropy, linear, linear_transposed};

/// The most rows of logits that the kernel holds at once. With fewer it would read the weights and add to their gradient
/// more often.
pub const ROWS_PER_CHUNK: usize = 512;

/// [`cross_entropy()`] of the logits `x W`, without ever holding `[rows, vocab_size]` of them if there is a kernel.
///
/// With `s` the gradient of the logits, as [`cross_entropy()`] has it, the gradients are `s Wᵀ` of `x` and `xᵀ s` of `W`.
/// The kernel computes both with the loss, [`ROWS_PER_CHUNK`] rows at a time and without rows of padding, so that `s` need not
/// be kept; the backward pass multiplies them by the slope of the sum, unless that is 1.
///
/// # Shapes
/// - `hidden`: `[rows, d_model]`; `targets`: `[rows]`
/// - `weight`: `[d_model, vocab_size]` or `[vocab_size, d_model]`, as `layout` says
pub fn projected_cross_entropy(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> LossOutput {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&hidden) == Some(crate::flex::Mode::Training) {
        return flex::projected_cross_entropy(hidden, weight, layout, targets, label_smoothing, pad_id, factors);
    }
    plain(hidden, weight, layout, targets, label_smoothing, pad_id, factors)
}

fn plain(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> LossOutput {
    let logits = match layout {
        Layout::InOut => linear(hidden, weight, None, factors),
        Layout::OutIn => linear_transposed(hidden, weight, factors),
    };
    cross_entropy(logits, targets, label_smoothing, pad_id)
}
