//! The softmax over rows of scores, and its gradient.

use crate::attention::FORBIDDEN;
use crate::dropout::mask::Mask;
use crate::flex::vector::{Kernel, LANES, dot, exp, max, sum};

/// Scores become weights.
pub(crate) struct Softmax<'a> {
    pub(crate) rows: &'a mut [f32],
    pub(crate) len: usize,
    /// A row for each row, or one for all.
    pub(crate) forbidden: &'a [bool],
}

impl Kernel for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            rows,
            len,
            forbidden,
        } = self;
        for (row, forbidden) in rows
            .chunks_exact_mut(len)
            .zip(forbidden.chunks_exact(len).cycle())
        {
            // A select without a branch, which the compiler turns into a masked move.
            for (score, forbidden) in row.iter_mut().zip(forbidden) {
                *score = if *forbidden { FORBIDDEN } else { *score };
            }
            // Less the maximum, no exponential overflows.
            let largest = max(row);
            let mut sums = [0.0; LANES];
            let (chunks, rest) = row.as_chunks_mut::<LANES>();
            for chunk in chunks {
                for lane in 0..LANES {
                    chunk[lane] = exp(chunk[lane] - largest);
                    sums[lane] += chunk[lane];
                }
            }
            for (sum, value) in sums.iter_mut().zip(rest) {
                *value = exp(*value - largest);
                *sum += *value;
            }
            let scale = 1.0 / sum(sums);
            for value in row.iter_mut() {
                *value *= scale;
            }
        }
    }
}

/// The gradient of dropped weights becomes that of the scores: `w * (s - sum(w s))`, with `s` the
/// gradient of the weights before dropout, and 0 where attention is forbidden.
pub(crate) struct SoftmaxBackward<'a> {
    pub(crate) grads: &'a mut [f32],
    pub(crate) weights: &'a [f32],
    pub(crate) len: usize,
    pub(crate) forbidden: &'a [bool],
    pub(crate) mask: Option<Mask>,
    /// The place of the first number in the mask.
    pub(crate) first: u32,
}

impl Kernel for SoftmaxBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            grads,
            weights,
            len,
            forbidden,
            mask,
            first,
        } = self;
        if let Some(mask) = mask {
            grads
                .iter_mut()
                .zip(first..)
                .for_each(|(grad, index)| *grad *= mask.at(index));
        }
        let rows = grads.chunks_exact_mut(len).zip(weights.chunks_exact(len));
        for ((grads, weights), forbidden) in rows.zip(forbidden.chunks_exact(len).cycle()) {
            let common = dot(grads, weights);
            for ((grad, weight), forbidden) in grads.iter_mut().zip(weights).zip(forbidden) {
                // Forbidden weights are 0 already, except in a row where all are: there they are
                // uniform, of constants.
                *grad = if *forbidden {
                    0.0
                } else {
                    weight * (*grad - common)
                };
            }
        }
    }
}
