//! The loss of a row of logits and the gradient of the logits, with the formulas of
//! [`crate::cross_entropy()`].
//!
//! A workgroup has a row, `[vocab_size]`, and reads it twice: once for the log-sum-exp and the sum
//! of the logits, once for the gradient, `exp(x - log_sum)` less the smoothed target, which it
//! writes in the format of the logits. Thread `i` has the vectors `i`, `i + THREADS`, and so on, so
//! that neighboring threads read neighboring memory.
//!
//! The log-sum-exp takes one pass, as the online softmax does: a thread keeps its largest logit `m`
//! and `Σ exp(x - m)`, scales the sum when `m` grows, and a tree over shared memory joins the pairs
//! of all threads.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::gpu::vector::sum;

/// Threads in a workgroup, a power of two, because their results are joined by halves.
pub(super) const THREADS: usize = 256;

/// The parameters of the loss.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Smoothing {
    /// The size of the vocabulary, in vectors.
    vectors: u32,
    /// The target of rows that do not count.
    pad_id: u32,
    /// The share of label smoothing, ε.
    share: f32,
}

/// Writes the losses of each row with smoothing and without, `[2, rows]`, and the gradient of the
/// former, `[rows, vocab_size]`; all are 0 in rows of padding.
#[cube(launch)]
pub(super) fn losses<T: Float, I: Int, N: Size>(
    logits: &[Vector<T, N>],
    targets: &[I],
    grads: &mut [Vector<T, N>],
    losses: &mut [f32],
    rows: u32,
    smoothing: Smoothing,
    #[define(T, I)] _types: [ElemType; 2],
) {
    let thread = UNIT_POS as usize;
    let row = CUBE_POS;
    let width = smoothing.vectors as usize;
    // The same for all threads of a workgroup, as the barriers in `sums` need it.
    if row < rows as usize {
        let (log_sum, sum) = sums::<T, N>(logits, row * width, width);
        let target = u32::cast_from(targets[row]);
        let not_padding = target != smoothing.pad_id;
        let count = f32::cast_from(smoothing.vectors * N::value() as u32);
        if thread == 0 {
            let target_vector =
                Vector::<f32, N>::cast_from(logits[row * width + target as usize / N::value()]);
            // The target's element of its vector, by selects: a vector has no index at run time.
            let mut logit = f32::new(0.0);
            #[unroll]
            for i in 0..N::value() {
                logit = select(
                    target as usize % N::value() == i,
                    target_vector.extract(i),
                    logit,
                );
            }
            let nll = log_sum - logit;
            let uniform = log_sum - sum / count;
            let smoothed = nll * (1.0f32 - smoothing.share) + uniform * smoothing.share;
            losses[row] = select(not_padding, smoothed, f32::new(0.0));
            losses[rows as usize + row] = select(not_padding, nll, f32::new(0.0));
        }
        // `softmax(x) - ε / V`, and `1 - ε` less at the target.
        let spread = smoothing.share / count;
        let mut at = thread;
        while at < width {
            let mut values = (Vector::<f32, N>::cast_from(logits[row * width + at])
                - Vector::new(log_sum))
            .exp();
            #[unroll]
            for i in 0..N::value() {
                let is_target = at * N::value() + i == target as usize;
                let expected = spread + select(is_target, 1.0f32 - smoothing.share, f32::new(0.0));
                values.insert(
                    i,
                    select(not_padding, values.extract(i) - expected, f32::new(0.0)),
                );
            }
            grads[row * width + at] = Vector::cast_from(values);
            at += THREADS;
        }
    }
}

/// The log-sum-exp of a row of logits and the sum of the logits, returned to all threads.
#[cube]
fn sums<T: Float, N: Size>(logits: &[Vector<T, N>], start: usize, width: usize) -> (f32, f32) {
    let mut largest = Shared::<[f32]>::new_slice(THREADS);
    let mut totals = Shared::<[f32]>::new_slice(THREADS);
    let mut sums = Shared::<[f32]>::new_slice(THREADS);
    // Lower than any logit; WGSL has no literal for minus infinity.
    let mut own_largest = f32::new(-1e30);
    let mut own_total = f32::new(0.0);
    // The sum of the logits themselves, for the part of label smoothing.
    let mut own_sum = Vector::<f32, N>::new(0.0f32);
    let thread = UNIT_POS as usize;
    let mut at = thread;
    while at < width {
        let values = Vector::<f32, N>::cast_from(logits[start + at]);
        own_sum += values;
        let mut new_largest = values.extract(0usize);
        #[unroll]
        for i in 1..N::value() {
            new_largest = new_largest.max(values.extract(i));
        }
        // The online softmax: a new maximum scales the sum so far.
        if new_largest > own_largest {
            own_total *= (own_largest - new_largest).exp();
            own_largest = new_largest;
        }
        let weights = (values - Vector::new(own_largest)).exp();
        own_total += sum::<N>(weights);
        at += THREADS;
    }
    largest[thread] = own_largest;
    totals[thread] = own_total;
    sums[thread] = sum::<N>(own_sum);
    // Half of the threads join the results of the other half, until one has the result of all.
    #[unroll]
    for step in 0..comptime!(THREADS.ilog2()) {
        sync_cube();
        let half = comptime!(THREADS >> (step + 1));
        if thread < half {
            let left = largest[thread];
            let right = largest[thread + half];
            let new_largest = left.max(right);
            let total = totals[thread] * (left - new_largest).exp()
                + totals[thread + half] * (right - new_largest).exp();
            let sum = sums[thread] + sums[thread + half];
            largest[thread] = new_largest;
            totals[thread] = total;
            sums[thread] = sum;
        }
    }
    // All threads read the result of the first.
    sync_cube();
    (largest[0] + totals[0].ln(), sums[0])
}

/// Writes `tensor * factor[0]`. A thread has one vector.
#[cube(launch)]
pub(super) fn scale<N: Size>(
    tensor: &[Vector<f32, N>],
    factor: &[f32],
    output: &mut [Vector<f32, N>],
    vectors: u32,
) {
    let index = ABSOLUTE_POS;
    if index < vectors as usize {
        output[index] = tensor[index] * Vector::new(factor[0]);
    }
}
