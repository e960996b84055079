//! Ensembles: several models that predict together.

use burn::tensor::Tensor;

/// Returns the logarithm of the mean of the members' probabilities, which are given as logarithms;
/// a single member is returned unchanged.
///
/// # Shapes
/// - each: `[rows, vocab_size]`; output: the same
///
/// # Panics
/// If there are no members.
pub fn mean_of_probabilities(log_probs: impl IntoIterator<Item = Tensor<2>>) -> Tensor<2> {
    let mut log_probs = log_probs.into_iter();
    let first = log_probs
        .next()
        .expect("an ensemble has at least one member");
    let mut sum = first;
    let mut count = 1.0f64;
    for other in log_probs {
        // log(exp(a) + exp(b)), from the larger of both so that nothing overflows.
        let larger = sum.clone().max_pair(other.clone());
        sum = ((sum - larger.clone()).exp() + (other - larger.clone()).exp()).log() + larger;
        count += 1.0;
    }
    if count > 1.0 { sum - count.ln() } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_averaged() {
        let device = crate::test_device();
        let logs = |probabilities: [f32; 3]| Tensor::<2>::from_data([probabilities], &device).log();
        let members = [
            [0.5, 0.25, 0.25],
            [0.125, 0.75, 0.125],
            [0.125, 0.125, 0.75],
        ];
        let mean = mean_of_probabilities(members.map(logs))
            .exp()
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        for (mean, expected) in mean.iter().zip([0.25, 0.375, 0.375]) {
            assert!((mean - expected).abs() < 1e-6, "{mean} is not {expected}");
        }
    }
}
