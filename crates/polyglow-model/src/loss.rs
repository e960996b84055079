//! The losses that training minimizes, as sums over a batch: label-smoothed cross-entropy (Szegedy
//! et al., 2016, section 7) and guided alignment (Chen et al., 2016).

pub(crate) mod prediction;

use burn::tensor::Tensor;

pub use polyglow_kernels::{LossOutput, Targets, cross_entropy};

/// The value that replaces an attention of 0, whose logarithm is infinite: the smallest normal f32.
const LEAST_ATTENTION: f64 = f32::MIN_POSITIVE as f64;

/// Returns the loss of guided alignment (Chen et al., 2016), `-sum gold log attention`: the
/// cross-entropy of the attention against the known alignment, in nats, `[1]`.
///
/// # Shapes
/// - `attention`, `gold`: `[batch, tgt_len, src_len]`; the rows of `gold` sum to 1, or to 0 where
///   no alignment is known
pub fn alignment_loss(attention: Tensor<3>, gold: Tensor<3>) -> Tensor<1> {
    -(attention.clamp_min(LEAST_ATTENTION).log() * gold).sum()
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
        assert!(
            (loss + 0.5 * 0.5f64.ln() + 0.5 * 0.25f64.ln()).abs() < 1e-6,
            "{loss}"
        );
        // An attention of 0 has a large and finite loss.
        let gold = Tensor::<3>::from_data([[[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0]]], &device);
        let loss = f64::from(alignment_loss(attention, gold).into_scalar::<f32>());
        assert!((loss + LEAST_ATTENTION.ln()).abs() < 1e-3, "{loss}");
    }
}
