//! The log-sum-exp of values in host memory, `log Σ exp(v)`: `exp(v - log_sum_exp)` is the softmax.

/// Returns `log(sum(exp(values)))`, with the largest value subtracted first so that nothing
/// overflows.
#[cfg(feature = "flex")]
pub fn log_sum_exp(values: &[f32]) -> f32 {
    use crate::flex::vector::{Kernel, LANES, exp, max, sum, vectorized};

    struct LogSumExp<'a>(&'a [f32]);

    impl Kernel for LogSumExp<'_> {
        type Output = f32;

        #[inline(always)]
        fn run(self) -> f32 {
            let largest = max(self.0);
            // In lanes, so that the sum is vectorized and has the same bits on every machine.
            let (chunks, rest) = self.0.as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for chunk in chunks {
                for (sum, value) in sums.iter_mut().zip(chunk) {
                    *sum += exp(value - largest);
                }
            }
            for (sum, value) in sums.iter_mut().zip(rest) {
                *sum += exp(value - largest);
            }
            largest + sum(sums).ln()
        }
    }
    vectorized(LogSumExp(values))
}

/// Returns `log(sum(exp(values)))`, with the largest value subtracted first so that nothing
/// overflows.
#[cfg(not(feature = "flex"))]
pub fn log_sum_exp(values: &[f32]) -> f32 {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    largest
        + values
            .iter()
            .map(|value| (value - largest).exp())
            .sum::<f32>()
            .ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_sum_exp_is_the_logarithm_of_the_sum() {
        for len in [1, 5, 16, 1003] {
            let values: Vec<f32> = (0..len)
                .map(|index| ((index * 37) % 41) as f32 * 0.7 + 60.0)
                .collect();
            let expected = values
                .iter()
                .map(|value| f64::from(*value).exp())
                .sum::<f64>()
                .ln();
            assert!(
                (f64::from(log_sum_exp(&values)) - expected).abs() < 1e-5,
                "{len}"
            );
        }
        assert!(log_sum_exp(&[0.0, f32::NAN]).is_nan());
    }
}
