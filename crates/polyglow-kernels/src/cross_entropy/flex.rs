//! Cross-entropy on the CPU: the loss of each row, and its gradient in place of the logits.
//!
//! With the formulas of [`crate::cross_entropy()`], a row of `vocab_size` logits is visited three
//! times while it is in a core's cache: for the maximum; for `exp(x_j - max)`, which overwrites the
//! logits, and the sums of both; and for `exp / sum - ε / V`, which overwrites them again with the
//! gradient. The maximum is subtracted so that no exponential overflows; it cancels in every
//! formula.
//!
//! Nothing of the size of the logits is allocated: at a vocabulary of 32 000 a second array would
//! be the largest of the training step.

use burn::backend::TensorData;
use burn::tensor::{Device, Int, Tensor};
use rayon::prelude::*;

use super::LossOutput;
use crate::flex::vector::{Kernel, LANES, exp, max, sum, vectorized};
use crate::flex::{BackwardPass, FlexTensor, from_data, from_values, into_data, open, record};

/// [`super::cross_entropy`] on flex with autodiff.
pub(super) fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
) -> LossOutput {
    let [num_rows, _] = logits.dims();
    let targets = to_ids(targets);
    assert_eq!(num_rows, targets.len(), "a target for each row of logits");
    let (logits, node) = open(logits);
    let mut data = into_data(logits);
    let values = data.as_mut_slice::<f32>().expect("flex trains in `f32`");
    let rows = into_gradients(values, &targets, label_smoothing as f32, pad_id);
    let (loss_sum, nll_sum) = sums(&rows);
    LossOutput {
        loss_sum: record(Gradient(from_data(data)), [node], loss_sum),
        nll_sum,
    }
}

/// The targets in host memory.
pub(crate) fn to_ids(targets: Tensor<1, Int>) -> Vec<u32> {
    targets.into_data().iter::<u32>().collect()
}

/// Overwrites each row of logits with the gradient of its loss, which is 0 if its target is
/// padding, and returns the losses of the rows.
pub(crate) fn into_gradients(
    logits: &mut [f32],
    targets: &[u32],
    smoothing: f32,
    pad_id: u32,
) -> Vec<RowLoss> {
    let vocab_size = logits.len() / targets.len().max(1);
    logits
        .par_chunks_mut(vocab_size.max(1))
        .zip(targets)
        .map(|(row, target)| into_gradient(row, *target, smoothing, pad_id))
        .collect()
}

/// [`into_gradients`] for one row.
fn into_gradient(row: &mut [f32], target: u32, smoothing: f32, pad_id: u32) -> RowLoss {
    // Written and not skipped: the row still has its logits.
    if target == pad_id {
        row.fill(0.0);
        return RowLoss {
            loss: 0.0,
            nll: 0.0,
        };
    }
    vectorized(Row {
        values: row,
        target: target as usize,
        smoothing,
    })
}

/// The sums over rows of the loss with smoothing and of that without, `[1]` each.
pub(crate) fn sums(rows: &[RowLoss]) -> (FlexTensor, Tensor<1>) {
    let loss_sum = total(rows.iter().map(|row| row.loss));
    let nll_sum = total(rows.iter().map(|row| row.nll));
    let nll_sum = TensorData::new(vec![nll_sum], [1]);
    (
        from_values(vec![loss_sum], [1]),
        Tensor::from_data(nll_sum, &Device::flex()),
    )
}

/// The sum in the order of rows, so that its bits do not depend on threads, and in double
/// precision, so that a sum of thousands of rows keeps its digits.
fn total(losses: impl Iterator<Item = f32>) -> f32 {
    losses.map(f64::from).sum::<f64>() as f32
}

/// The gradient of the logits, which is known with the loss: the backward pass only scales it.
#[derive(Clone, Debug)]
struct Gradient(FlexTensor);

impl BackwardPass<1> for Gradient {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(scaled(self.0, scalar_gradient(gradient)))]
    }
}

/// The gradient of a sum as a scalar: its tensor has one element.
pub(crate) fn scalar_gradient(gradient: FlexTensor) -> f32 {
    into_data(gradient)
        .iter::<f32>()
        .next()
        .expect("the gradient of one sum")
}

/// Returns `factor * gradient`.
pub(crate) fn scaled(gradient: FlexTensor, factor: f32) -> FlexTensor {
    // If `backward` is called on the sum of losses itself, the factor is 1, and a pass over all
    // logits is saved.
    if factor.to_bits() == 1.0f32.to_bits() {
        return gradient;
    }
    let mut data = into_data(gradient);
    let values = data.as_mut_slice::<f32>().expect("flex trains in `f32`");
    values
        .par_iter_mut()
        // Fewer elements are not worth a task.
        .with_min_len(1 << 14)
        .for_each(|value| *value *= factor);
    from_data(data)
}

/// The losses of a row in nats, with smoothing and without.
pub(crate) struct RowLoss {
    /// With smoothing.
    loss: f32,
    /// Without: the negative log-likelihood of the target.
    nll: f32,
}

/// Overwrites a row of logits with the gradient of its loss, and returns the loss.
struct Row<'a> {
    /// The logits, `[vocab_size]`, which become their gradient.
    values: &'a mut [f32],
    target: usize,
    /// ε.
    smoothing: f32,
}

impl Kernel for Row<'_> {
    type Output = RowLoss;

    #[inline(always)]
    fn run(self) -> RowLoss {
        let Self {
            values: row,
            target,
            smoothing,
        } = self;
        let len = row.len() as f32;
        // First pass.
        let largest = max(row);
        // Read now: the loop overwrites it.
        let target_logit = row[target] - largest;
        // Smoothing needs the mean of all logits, which costs little in the pass over exponentials.
        let mut exps = [0.0; LANES];
        let mut shifts = [0.0; LANES];
        // Second pass: exponentials in place of logits, in lanes, so that the compiler vectorizes
        // the sums.
        let (chunks, rest) = row.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                let shifted = chunk[lane] - largest;
                chunk[lane] = exp(shifted);
                shifts[lane] += shifted;
                exps[lane] += chunk[lane];
            }
        }
        for (lane, value) in rest.iter_mut().enumerate() {
            let shifted = *value - largest;
            *value = exp(shifted);
            shifts[lane] += shifted;
            exps[lane] += *value;
        }
        let total = sum(exps);
        // Third pass: `softmax - ε / V` for all, and then the term of the target.
        let scale = 1.0 / total;
        let floor = smoothing / len;
        for value in row.iter_mut() {
            *value = *value * scale - floor;
        }
        row[target] -= 1.0 - smoothing;
        // `log_sum` and the target's logit are both relative to the maximum, which cancels.
        let log_sum = total.ln();
        let nll = log_sum - target_logit;
        let uniform = log_sum - sum(shifts) / len;
        RowLoss {
            loss: (1.0 - smoothing) * nll + smoothing * uniform,
            nll,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::super::{LossOutput, plain};
    use super::*;

    const PAD: u32 = 0;

    type Function = fn(Tensor<2>, Tensor<1, Int>, f64, u32) -> LossOutput;

    /// Returns the loss, the loss without smoothing, and the gradient of three times the loss.
    fn run(
        function: Function,
        logits: &TensorData,
        targets: &[i32],
        smoothing: f64,
    ) -> (f32, f32, Vec<f32>) {
        let device = Device::flex().autodiff();
        let logits = Tensor::<2>::from_data(logits.clone(), &device).require_grad();
        let targets = Tensor::<1, Int>::from_data(targets, &device);
        let LossOutput { loss_sum, nll_sum } =
            function(logits.clone() * 1.0, targets, smoothing, PAD);
        let gradients = (loss_sum.clone() * 3.0).backward();
        let gradient = logits
            .grad(&gradients)
            .expect("the loss depends on it")
            .into_data();
        (
            loss_sum.into_scalar::<f32>(),
            nll_sum.into_scalar::<f32>(),
            gradient.iter().collect(),
        )
    }

    fn near(left: f32, right: f32, scale: f32) -> bool {
        (left - right).abs() <= 2e-6 * scale.max(1.0)
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        for (rows, vocab_size) in [(1, 2), (5, 7), (9, 16), (33, 1003)] {
            let range = Distribution::Uniform(-20.0, 20.0);
            let logits =
                Tensor::<2>::random([rows, vocab_size], range, &Device::flex()).into_data();
            let targets: Vec<i32> = (0..rows).map(|row| row * 5 % vocab_size).collect();
            for smoothing in [0.0, 0.1, 0.9] {
                let (loss, nll, gradient) = run(cross_entropy, &logits, &targets, smoothing);
                let (plain_loss, plain_nll, plain_gradient) =
                    run(plain, &logits, &targets, smoothing);
                assert!(
                    near(loss, plain_loss, loss.abs()),
                    "{rows} x {vocab_size}: {loss}, {plain_loss}"
                );
                assert!(
                    near(nll, plain_nll, nll.abs()),
                    "{rows} x {vocab_size}: {nll}, {plain_nll}"
                );
                assert_eq!(gradient.len(), plain_gradient.len());
                for (left, right) in gradient.iter().zip(&plain_gradient) {
                    assert!(
                        near(*left, *right, 1.0),
                        "{rows} x {vocab_size}: {left}, {right}"
                    );
                }
            }
        }
    }

    #[test]
    fn logits_that_are_used_elsewhere_are_not_overwritten() {
        let device = Device::flex().autodiff();
        let logits = Tensor::<2>::from_data([[1.0f32, 2.0, 3.0]], &device).require_grad();
        let targets = Tensor::<1, Int>::from_data([1], &device);
        let LossOutput { loss_sum, .. } = cross_entropy(logits.clone(), targets, 0.1, PAD);
        let gradients = (loss_sum + logits.clone().sum()).backward();
        assert_eq!(
            logits.clone().into_data().iter::<f32>().collect::<Vec<_>>(),
            [1.0, 2.0, 3.0]
        );
        let sum: f32 = logits
            .grad(&gradients)
            .expect("it is tracked")
            .into_data()
            .iter::<f32>()
            .sum();
        // The gradient of a cross-entropy sums to 0, that of a sum of three to 3.
        assert!((sum - 3.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_logit_that_is_not_finite_shows_in_the_loss() {
        for bad in [f32::NAN, f32::INFINITY] {
            let logits = TensorData::new(vec![0.0, bad, 1.0, 2.0], [1, 4]);
            let (loss, nll, _) = run(cross_entropy, &logits, &[2], 0.1);
            assert!(
                !loss.is_finite() && !nll.is_finite(),
                "{bad}: {loss}, {nll}"
            );
        }
    }
}
