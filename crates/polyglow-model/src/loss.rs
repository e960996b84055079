//! Label-smoothed cross-entropy (Szegedy et al., 2016, section 7) and guided alignment (Chen et al., 2016), as sums over a
//! batch.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};

/// Sums over the target tokens of a batch; whoever steps divides, once.
#[derive(Clone, Debug)]
pub struct LossOutput {
    /// Smoothed cross-entropy in nats, `[1]`; carries the gradient.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing in nats, `[1]`; its mean is the logarithm of the perplexity.
    pub nll_sum: Tensor<1>,
}

/// The least attention that is told from none: below it the logarithm of guided alignment falls no further.
const LEAST_ATTENTION: f64 = 1e-6;

/// Guided alignment (Chen et al., 2016): `-sum gold log attention`, the cross-entropy of the attention against where it
/// should be, in nats, `[1]`; carries the gradient.
///
/// # Shapes
/// - `attention`, `gold`: `[batch, tgt_len, src_len]`; the rows of `gold` sum to 1, or to 0 where nothing is known
pub fn alignment_loss(attention: Tensor<3>, gold: Tensor<3>) -> Tensor<1> {
    -(attention.clamp_min(LEAST_ATTENTION).log() * gold).sum()
}

/// `(1 - ε) nll + ε mean over the vocabulary of -log p`, summed over all targets that are not `pad_id`.
///
/// This is PyTorch's convention: ε is spread over all classes, the right one included. The gradient with respect to the
/// logits is `softmax - (1 - ε) onehot - ε / V` in closed form, so it is computed outside the autodiff graph, and the
/// graph holds a single product; no `[rows, vocab]` intermediate is kept for the backward pass but that one.
///
/// # Shapes
/// - `logits`: `[rows, vocab_size]`; `targets`: `[rows]`
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>, label_smoothing: f64, pad_id: u32) -> LossOutput {
    let [rows, vocab_size] = logits.dims();
    let targets: Tensor<2, Int> = targets.reshape([rows, 1]).inner();
    let scores = logits.clone().inner();
    let real = targets.clone().not_equal_elem(pad_id as i32).float(); // [rows, 1]
    let shifted = scores.clone() - scores.max_dim(1);
    let exp = shifted.clone().exp();
    let sum = exp.clone().sum_dim(1); // [rows, 1]
    let log_sum = sum.clone().log();
    let nll = log_sum.clone() - shifted.clone().gather(1, targets.clone());
    let uniform = log_sum - shifted.mean_dim(1);
    let loss = nll.clone() * (1.0 - label_smoothing) + uniform * label_smoothing;
    let loss_sum = (loss * real.clone()).sum();
    let nll_sum = (nll * real.clone()).sum();
    if !logits.is_autodiff() {
        return LossOutput { loss_sum, nll_sum };
    }

    // Padding rows get no gradient: everything in them is multiplied by zero.
    let softmax = exp * (real.clone() / sum);
    let spread = softmax - real.clone() * (label_smoothing / vocab_size as f64);
    let gradient = spread.scatter(1, targets, real * (label_smoothing - 1.0), IndexingUpdateOp::Add);
    let slope = (logits * gradient).sum();
    // Its value cancels and its gradient stays.
    let loss_sum = loss_sum + (slope.clone() - slope.detach());
    LossOutput { loss_sum, nll_sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guided_alignment_is_the_cross_entropy_of_the_attention() {
        let device = crate::test_device();
        let attention = Tensor::<3>::from_data([[[0.5f32, 0.25, 0.25], [0.0, 0.9, 0.1]]], &device);
        let gold = Tensor::<3>::from_data([[[0.5f32, 0.0, 0.5], [0.0, 0.0, 0.0]]], &device);
        let loss = f64::from(alignment_loss(attention.clone(), gold).into_scalar::<f32>());
        assert!((loss + 0.5 * 0.5f64.ln() + 0.5 * 0.25f64.ln()).abs() < 1e-6, "{loss}");
        // Where nothing is looked at, the loss is large and finite.
        let gold = Tensor::<3>::from_data([[[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0]]], &device);
        let loss = f64::from(alignment_loss(attention, gold).into_scalar::<f32>());
        assert!((loss + LEAST_ATTENTION.ln()).abs() < 1e-4, "{loss}");
    }
}
