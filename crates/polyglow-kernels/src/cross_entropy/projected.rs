//! Cross-entropy from hidden states: the projection to the vocabulary and the loss in one
//! operation.
//!
//! With hidden states `x` of `[rows, d_model]` and the weight `W` of `[d_model, vocab_size]`, the
//! logits are `x W`. With `s = d loss / d logits` from [`crate::cross_entropy()`], the gradients
//! are `s Wᵀ` of `x` and `xᵀ s` of `W`.
//!
//! # Chunks
//! Logits and `s` would be the largest tensors of a training step: 4 096 rows of a vocabulary of 32
//! 000 take 500 MiB in f32, twice. But `s` follows from the logits without the gradient of the
//! loss, which is a scalar factor. So rows are processed in chunks: logits, loss and `s` of a
//! chunk, then its rows of the gradient of `x` and its addend to the gradient of `W`, and then the
//! memory is reused. The forward pass thus has all gradients when it has the loss, and the backward
//! pass only scales them.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::activation::log_softmax;
use burn::tensor::{FloatDType, Int, Tensor};

use crate::factors::{Factors, widened};
use crate::linear::{product, product_of_columns};
use crate::{Layout, LossOutput, Targets, cross_entropy, linear, linear_transposed};

/// The most rows of logits that the kernel of the CPU holds at once. With fewer it would read the
/// weight and add to its gradient more often: a step of `base` took 1.13 to 1.20 times as long with
/// 128 rows, and 1.04 to 1.15 times with 256 (docs/notes/performance.md).
const ROWS_PER_CHUNK: usize = 512;

/// The most logits that are held at once elsewhere, 512 MiB in f32: 4 096 rows of a vocabulary of
/// 32 000.
const LOGITS_PER_CHUNK: usize = 1 << 27;

/// The number of rows of logits that are held at once, with kernels for the CPU or without.
#[must_use]
pub fn rows_per_chunk(vocab_size: usize, kernels: bool) -> usize {
    if kernels {
        ROWS_PER_CHUNK
    } else {
        (LOGITS_PER_CHUNK / vocab_size.max(1)).max(1)
    }
}

/// Returns [`cross_entropy()`] of the logits `x W`; with autodiff without ever holding all
/// `[rows, vocab_size]` of them.
///
/// With `s` the gradient of the logits, the gradients are `s Wᵀ` of `x` and `xᵀ s` of `W`. Both are
/// computed with the loss, some rows at a time, so that `s` need not be kept; the backward pass
/// multiplies them by the gradient of the sum, unless that is 1. Kernels leave out rows of padding.
///
/// # Shapes
/// - `hidden`: `[rows, d_model]`; `targets`: as many rows
/// - `weight`: `[d_model, vocab_size]` or `[vocab_size, d_model]`, as `layout` says
pub fn projected_cross_entropy(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    targets: Targets,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> LossOutput {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&hidden) == Some(crate::flex::Mode::Training) {
        return flex::projected_cross_entropy(
            hidden,
            weight,
            layout,
            targets.all,
            label_smoothing,
            pad_id,
            factors,
        );
    }
    #[cfg(feature = "gpu")]
    if let Some(output) = gpu::loss(
        &hidden,
        &weight,
        layout,
        &targets,
        label_smoothing,
        pad_id,
        factors,
    ) {
        return output;
    }
    plain(
        hidden,
        weight,
        layout,
        targets.all,
        label_smoothing,
        pad_id,
        factors,
    )
}

/// [`projected_cross_entropy`] in terms of Burn's operations: the same gradients in closed form,
/// chunk by chunk, so that nothing of `[rows, vocab_size]` is kept.
fn plain(
    hidden: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> LossOutput {
    if !hidden.is_autodiff() {
        return with_logits(
            hidden,
            weight,
            layout,
            targets,
            label_smoothing,
            pad_id,
            factors,
        );
    }
    let [rows, _] = hidden.dims();
    let chunks = Chunks::new(
        weight.clone().inner(),
        layout,
        label_smoothing,
        pad_id,
        factors,
    );
    let sums = chunks.sums(&hidden.clone().inner(), &targets.inner().reshape([rows, 1]));
    // The value of the product cancels, and its gradients stay.
    let [loss_sum, nll_sum] = sums.totals();
    let product =
        (hidden * Tensor::cat(sums.grad_hidden, 0)).sum() + (weight * sums.grad_weight).sum();
    LossOutput {
        loss_sum: loss_sum + (product.clone() - product.detach()),
        nll_sum,
    }
}

/// [`projected_cross_entropy`] by its definition, with all logits at once.
fn with_logits(
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
    cross_entropy(widened(logits), targets, label_smoothing, pad_id)
}

/// Computes the loss and its gradients outside of the graph, chunk by chunk.
struct Chunks {
    /// The weight, rounded, as `[d_model, vocab_size]`.
    to_logits: Tensor<2>,
    layout: Layout,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
    /// A field and not a call, so that tests may make small chunks.
    rows_per_chunk: usize,
}

/// The losses of rows, and the gradients of the sum of the smoothed ones.
struct Sums {
    /// The losses with smoothing and those without, `[2, rows]`.
    losses: Tensor<2>,
    /// The gradient of the hidden states, `[rows, d_model]`, in chunks.
    grad_hidden: Vec<Tensor<2>>,
    /// The gradient of the weight, in its layout.
    grad_weight: Tensor<2>,
}

impl Sums {
    /// The sums of the losses with smoothing and without, `[1]` each.
    fn totals(&self) -> [Tensor<1>; 2] {
        let totals = self.losses.clone().sum_dim(1).squeeze_dim::<1>(1);
        [0, 1].map(|which| totals.clone().narrow(0, which, 1))
    }
}

/// The losses of rows of logits, as in [`Sums`], and the gradients of the logits,
/// `[rows, vocab_size]`.
struct LogitGradients {
    grads: Tensor<2>,
    losses: Tensor<2>,
}

impl Chunks {
    /// Rounds the weight, which is outside of the graph, once for all chunks.
    fn new(
        weight: Tensor<2>,
        layout: Layout,
        label_smoothing: f64,
        pad_id: u32,
        factors: Factors,
    ) -> Self {
        #[cfg(feature = "gpu")]
        let rounded = crate::factors::rounded(factors, weight);
        #[cfg(not(feature = "gpu"))]
        let rounded = factors.rounded(weight);
        let to_logits = match layout {
            Layout::InOut => rounded,
            Layout::OutIn => rounded.transpose(),
        };
        let rows_per_chunk = rows_per_chunk(to_logits.dims()[1], false);
        Self {
            to_logits,
            layout,
            label_smoothing,
            pad_id,
            factors,
            rows_per_chunk,
        }
    }

    /// The losses and gradients of all rows.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, d_model]`; `targets`: `[rows, 1]`
    fn sums(&self, hidden: &Tensor<2>, targets: &Tensor<2, Int>) -> Sums {
        let [rows, _] = hidden.dims();
        let mut losses = Vec::new();
        let mut grad_hidden = Vec::new();
        let mut grad_weight = None;
        for first in (0..rows).step_by(self.rows_per_chunk) {
            let len = self.rows_per_chunk.min(rows - first);
            let chunk = self.chunk(
                hidden.clone().narrow(0, first, len),
                targets.clone().narrow(0, first, len),
            );
            losses.push(chunk.losses);
            grad_hidden.extend(chunk.grad_hidden);
            grad_weight = Some(match grad_weight {
                Some(sum) => sum + chunk.grad_weight,
                None => chunk.grad_weight,
            });
        }
        Sums {
            losses: Tensor::cat(losses, 1),
            grad_hidden,
            grad_weight: grad_weight.expect("a batch has rows"),
        }
    }

    /// The losses and gradients of a chunk, whose memory is free afterwards.
    fn chunk(&self, hidden: Tensor<2>, targets: Tensor<2, Int>) -> Sums {
        // Rounded once for two products: that of the logits and that of the weight's gradient.
        let hidden = self.factors.rounded(hidden);
        let logits = product(hidden.clone(), self.to_logits.clone(), self.factors.dtype());
        let LogitGradients { grads, losses } = self.logit_gradients(logits, targets);
        let grads = self.factors.rounded(grads);
        let (left, right) = match self.layout {
            Layout::InOut => (hidden, grads.clone()),
            Layout::OutIn => (grads.clone(), hidden),
        };
        let to_hidden = self.to_logits.clone().transpose();
        Sums {
            losses,
            grad_hidden: vec![product(grads, to_hidden, FloatDType::F32)],
            grad_weight: product_of_columns(left, right),
        }
    }

    /// The losses and the gradients of the logits, by a kernel or by Burn's operations.
    fn logit_gradients(&self, logits: Tensor<2>, targets: Tensor<2, Int>) -> LogitGradients {
        let &Self {
            label_smoothing,
            pad_id,
            ..
        } = self;
        #[cfg(feature = "gpu")]
        if let Some(output) = gpu::logit_gradients(&logits, &targets, label_smoothing, pad_id) {
            return output;
        }
        let logits = widened(logits);
        let [_, vocab_size] = logits.dims();
        let not_padding = targets.clone().not_equal_elem(pad_id as i32).float(); // [rows, 1]
        let log_probs = log_softmax(logits, 1);
        let nll = -log_probs.clone().gather(1, targets.clone());
        let smoothed =
            nll.clone() * (1.0 - label_smoothing) - log_probs.clone().mean_dim(1) * label_smoothing;
        // `softmax - (1 - ε) onehot - ε / vocab_size`, and 0 in rows of padding. The target is
        // selected by comparing indices, which is fused with the rest; a scatter would be a pass of
        // its own.
        let token_ids =
            Tensor::<1, Int>::arange(0..vocab_size as i64, &targets.device()).unsqueeze();
        let softmax = log_probs.exp();
        let grads = softmax
            .clone()
            .mask_where(token_ids.equal(targets), softmax - (1.0 - label_smoothing));
        let grads = (grads - label_smoothing / vocab_size as f64) * not_padding.clone();
        LogitGradients {
            grads,
            losses: Tensor::cat(vec![smoothed * not_padding.clone(), nll * not_padding], 1)
                .transpose(),
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::flex::tests::{assert_near, elements, random};

    #[test]
    fn the_size_of_chunks_changes_nothing_but_the_order_of_sums() {
        let device = Device::flex();
        let hidden = random([7, 6], 1.0);
        let weight = random([6, 5], 1.0);
        let targets = Tensor::<1, Int>::from_data([3, 0, 4, 1, 1, 0, 2], &device).reshape([7, 1]);
        let run = |rows_per_chunk| {
            let chunks = Chunks::new(weight.clone(), Layout::InOut, 0.1, 0, Factors::F32);
            let sums = Chunks {
                rows_per_chunk,
                ..chunks
            }
            .sums(&hidden, &targets);
            let losses = sums.totals().map(elements).concat();
            [
                losses,
                elements(Tensor::cat(sums.grad_hidden, 0)),
                elements(sums.grad_weight),
            ]
        };
        let expected = run(7);
        for rows_per_chunk in [1, 2, 3, 6] {
            for (actual, expected) in run(rows_per_chunk).iter().zip(&expected) {
                assert_near(actual, expected, 1e-6);
            }
        }
    }
}
