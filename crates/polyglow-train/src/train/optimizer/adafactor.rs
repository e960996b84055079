//! Adafactor (Shazeer and Stern, 2018): Adam's second moment of a matrix from the means of its rows
//! and columns.

use burn::tensor::Tensor;
use polyglow_kernels::square_sums;

use super::{ParameterStep, UpdateRule, parts};

/// Added to the square of a gradient, so that a row of zeros can be divided by; ε₁ of the paper.
const SQUARE_EPSILON: f64 = 1e-30;
/// The second moment of step `t` keeps `1 - t^-0.8` of that before it; the paper's section 7.2.
const DECAY_EXPONENT: f64 = -0.8;
/// Largest root mean square of an update before the learning rate; d of the paper.
const CLIP_THRESHOLD: f64 = 1.0;

/// For a matrix with gradient `G`: `R = β R + (1 - β) mean of each row of (G² + ε₁)`, `C` likewise
/// of each column, `U = G / sqrt(R C / mean(R))`, `W -= lr U / max(1, RMS(U) / d)`, with
/// `β = 1 - t^-0.8`. A vector has its second moment in full.
///
/// As in PyTorch weight decay is decoupled, and there is no first moment. The learning rate is that
/// of the schedule, as for Adam: it is not scaled with the root mean square of the weights as the
/// paper's relative step sizes are, and not limited by `1 / sqrt(t)`. So a change of optimizer
/// leaves the meaning of `train.lr`, and its usual values, as they are. State: `row` and `column`
/// of a matrix, `square` of a vector.
///
/// `t` counts skipped steps, as in Adam. There is no bias to be corrected, as `β` is 0 in step 1;
/// where step 1 was skipped the next underestimates the second moment, and the limit on `RMS(U)`
/// bounds the result.
#[derive(Debug)]
pub(super) struct Adafactor;

impl UpdateRule for Adafactor {
    fn state(&self, _: &str, shape: &[usize]) -> Vec<(&'static str, usize)> {
        match matrices(shape) {
            Some([count, rows, columns]) => {
                vec![("row", count * rows), ("column", count * columns)]
            }
            None => vec![("square", shape.iter().product())],
        }
    }

    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        let gradient = gradient * step.scale.clone();
        let keep = 1.0 - (step.step as f64).powf(DECAY_EXPONENT);
        let result = match matrices(step.shape) {
            Some(shape) => factored(gradient, parts(state), shape, keep),
            None => in_full(gradient, parts(state), keep),
        };
        let (update, state) = result;
        let len: usize = step.shape.iter().product();
        let row = step.shape.last().copied().unwrap_or(1);
        let rms = (square_sums(&update, row).sum() / len as f64).sqrt();
        let factor = (rms / CLIP_THRESHOLD).clamp_min(1.0).recip() * step.lr;
        let weight = if step.weight_decay > 0.0 {
            weight * (1.0 - step.lr * step.weight_decay)
        } else {
            weight
        };
        (weight - update * factor, state)
    }
}

/// Returns a parameter's shape as that of matrices, `[count, rows, columns]`; of more than two axes
/// the last two are factored. A vector has none.
fn matrices(shape: &[usize]) -> Option<[usize; 3]> {
    let (before, &[rows, columns]) = shape.split_last_chunk()?;
    Some([before.iter().product(), rows, columns])
}

/// Returns the update of matrices before the learning rate, and their new row and column means.
fn factored(
    gradient: Tensor<1>,
    [row, column]: [Tensor<1>; 2],
    shape: [usize; 3],
    keep: f64,
) -> (Tensor<1>, Vec<Tensor<1>>) {
    let [count, rows, columns] = shape;
    let gradient: Tensor<3> = gradient.reshape(shape);
    let square = gradient.clone() * gradient.clone() + SQUARE_EPSILON;
    let row = row.reshape([count, rows, 1]) * keep + square.clone().mean_dim(2) * (1.0 - keep);
    let column = column.reshape([count, 1, columns]) * keep + square.mean_dim(1) * (1.0 - keep);
    // Two roots instead of one: the product of two means of a row and a column of zeros is less
    // than an `f32` holds.
    let row_factor = (row.clone() / row.clone().mean_dim(1)).sqrt().recip();
    let update = gradient * row_factor * column.clone().sqrt().recip();
    (
        update.reshape([-1]),
        vec![row.reshape([-1]), column.reshape([-1])],
    )
}

/// Returns the update of a vector before the learning rate, and its new second moment.
fn in_full(
    gradient: Tensor<1>,
    [square]: [Tensor<1>; 1],
    keep: f64,
) -> (Tensor<1>, Vec<Tensor<1>>) {
    let square =
        square * keep + (gradient.clone() * gradient.clone() + SQUARE_EPSILON) * (1.0 - keep);
    (gradient / square.clone().sqrt(), vec![square])
}
