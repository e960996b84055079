//! The softmax over rows of scores with a mask, and its gradient, both in place.
//!
//! Forward: `w_j = exp(s_j - m) / Σ_k exp(s_k - m)` with `m = max_k s_k`, where a forbidden score
//! counts as [`FORBIDDEN`]. Backward: with `g` the gradient of the weights after dropout and
//! `d = mask * g` that of the weights before it, the gradient of the scores is
//! `w_j (d_j - Σ_k w_k d_k)`, and 0 where attention is forbidden.
//!
//! A row is `len` neighboring scores, so every pass over it reads a cache line after the other.
//! Both are [`Kernel`]s on one core: the caller divides batch rows or heads among cores.

use crate::attention::FORBIDDEN;
use crate::dropout::mask::Mask;
use crate::flex::vector::{Kernel, LANES, dot, exp, max, sum};

/// Turns rows of scores into weights.
pub(crate) struct Softmax<'a> {
    /// `[rows, len]`: scores, which become weights.
    pub(crate) rows: &'a mut [f32],
    pub(crate) len: usize,
    /// One row of flags for each row of scores, or one for all rows: `true` where attention is
    /// forbidden.
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
            // With the maximum subtracted no exponential overflows.
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

/// Turns the gradient of the weights after dropout into that of the scores.
pub(crate) struct SoftmaxBackward<'a> {
    /// The gradient of the weights, which becomes that of the scores.
    pub(crate) grads: &'a mut [f32],
    /// The weights before dropout.
    pub(crate) weights: &'a [f32],
    pub(crate) len: usize,
    /// As in [`Softmax`].
    pub(crate) forbidden: &'a [bool],
    /// The mask of dropout; `None` without dropout.
    pub(crate) mask: Option<Mask>,
    /// The index of the first element in the mask.
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
            for (grad, index) in grads.iter_mut().zip(first..) {
                *grad *= mask.at(index);
            }
        }
        let rows = grads.chunks_exact_mut(len).zip(weights.chunks_exact(len));
        for ((grads, weights), forbidden) in rows.zip(forbidden.chunks_exact(len).cycle()) {
            let mean = dot(grads, weights);
            for ((grad, weight), forbidden) in grads.iter_mut().zip(weights).zip(forbidden) {
                // Forbidden weights are 0 already, except in a row where everything is forbidden:
                // there all weights are equal, but their scores are constants.
                *grad = if *forbidden {
                    0.0
                } else {
                    weight * (*grad - mean)
                };
            }
        }
    }
}
