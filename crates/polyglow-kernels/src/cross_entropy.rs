//! Label-smoothed cross-entropy (Szegedy et al., 2016, section 7), as sums over a batch.
//!
//! For a row of logits `x` with target `t`, vocabulary size `V` and smoothing `ε`:
//!
//! ```text
//! log_sum = log Σ_j exp(x_j)
//! nll     = log_sum - x_t
//! uniform = log_sum - mean_j x_j                 the mean over the vocabulary of -log p
//! loss    = (1 - ε) nll + ε uniform
//! d loss / d x_j = softmax(x)_j - (1 - ε) [j = t] - ε / V
//! ```
//!
//! The gradient follows from the same exponentials as the loss, so both are computed together, and
//! the backward pass only scales the gradient. A row whose target is padding has neither.

#[cfg(feature = "flex")]
mod flex;
pub(crate) mod projected;
pub(crate) mod targets;

use burn::tensor::{IndexingUpdateOp, Int, Tensor};

#[cfg(feature = "flex")]
pub(crate) use flex::{RowLoss, into_gradients, scalar_gradient, scaled, sums, to_ids};

/// The losses of a batch, summed over its target tokens. The division by their count is left to the
/// update, so that a batch may be split without changing the step.
#[derive(Clone, Debug)]
pub struct LossOutput {
    /// Smoothed cross-entropy in nats, `[1]`; carries the gradient.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing in nats, `[1]`; its mean is the logarithm of the perplexity.
    pub nll_sum: Tensor<1>,
}

/// Returns `(1 - ε) nll + ε mean over the vocabulary of -log p`, summed over all targets that are
/// not `pad_id`, with `ε` for `label_smoothing`.
///
/// This is PyTorch's convention: ε is spread over all classes, the right one included. The gradient
/// of a row's loss with respect to its logits is `softmax - (1 - ε) onehot - ε / vocab_size`, and 0
/// in a row whose target is padding. The kernel writes it over the logits, so nothing else of
/// `[rows, vocab_size]` is allocated.
///
/// # Shapes
/// - `logits`: `[rows, vocab_size]`; `targets`: `[rows]`
///
/// # Panics
/// On flex, a target is not in the vocabulary.
///
/// # Examples
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use polyglow_kernels::cross_entropy;
///
/// let device = Device::flex().autodiff();
/// let logits = [[0.0f32, 0.0, 0.0, 0.0], [9.0, 1.0, 1.0, 1.0]];
/// let logits = Tensor::<2>::from_data(logits, &device).require_grad();
/// let targets = Tensor::<1, Int>::from_data([2, 0], &device);
/// let pad_id = 0; // the second target is padding, so its row does not count
/// let loss = cross_entropy(logits.clone(), targets, 0.0, pad_id);
/// let gradients = loss.loss_sum.clone().backward();
/// assert!((loss.loss_sum.into_scalar::<f32>() - 4f32.ln()).abs() < 1e-6); // uniform over 4 tokens
/// let gradient = logits.grad(&gradients).expect("the loss depends on it").into_data();
/// let gradient: Vec<f32> = gradient.iter::<f32>().collect();
/// assert_eq!(gradient, [0.25, 0.25, -0.75, 0.25, 0.0, 0.0, 0.0, 0.0]);
/// ```
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
) -> LossOutput {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&logits) == Some(crate::flex::Mode::Training) {
        return flex::cross_entropy(logits, targets, label_smoothing, pad_id);
    }
    plain(logits, targets, label_smoothing, pad_id)
}

/// [`cross_entropy`] in terms of Burn's operations.
///
/// The gradient is computed outside the autodiff graph, and the graph holds only its product with
/// the logits; so one `[rows, vocab_size]` tensor is kept for the backward pass.
fn plain(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
) -> LossOutput {
    let [rows, vocab_size] = logits.dims();
    let targets: Tensor<2, Int> = targets.reshape([rows, 1]).inner();
    let scores = logits.clone().inner();
    let not_padding = targets.clone().not_equal_elem(pad_id as i32).float(); // [rows, 1]
    // With the maximum subtracted no exponential overflows.
    let shifted = scores.clone() - scores.max_dim(1);
    let exp = shifted.clone().exp();
    let sum = exp.clone().sum_dim(1); // [rows, 1]
    let log_sum = sum.clone().log();
    let nll = log_sum.clone() - shifted.clone().gather(1, targets.clone());
    let uniform = log_sum - shifted.mean_dim(1);
    let loss = nll.clone() * (1.0 - label_smoothing) + uniform * label_smoothing;
    let loss_sum = (loss * not_padding.clone()).sum();
    let nll_sum = (nll * not_padding.clone()).sum();
    if !logits.is_autodiff() {
        return LossOutput { loss_sum, nll_sum };
    }

    // Padding rows get no gradient: everything in them is multiplied by zero.
    let softmax = exp * (not_padding.clone() / sum);
    let spread = softmax - not_padding.clone() * (label_smoothing / vocab_size as f64);
    let gradient = spread.scatter(
        1,
        targets,
        not_padding * (label_smoothing - 1.0),
        IndexingUpdateOp::Add,
    );
    let product = (logits * gradient).sum();
    // The value of the product cancels, and its gradient stays.
    let loss_sum = loss_sum + (product.clone() - product.detach());
    LossOutput { loss_sum, nll_sum }
}
