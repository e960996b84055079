//! The loss of a row of logits and its slopes, by a cube that goes through the row twice.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::gpu::vector::sum;

/// Units of a cube.
pub(super) const THREADS: usize = 256;

/// What the loss depends on beside the logits.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Smoothing {
    /// Of the vocabulary, in vectors.
    vectors: u32,
    pad_id: u32,
    /// ε.
    share: f32,
}

/// The smoothed loss and the plain one of each row, `[2, rows]`, and the slopes of the first, as
/// [`cross_entropy`](crate::cross_entropy()) has them: 0 in rows of padding.
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
    let unit = UNIT_POS as usize;
    let row = CUBE_POS;
    let width = smoothing.vectors as usize;
    if row < rows as usize {
        let (log_sum, sum) = sums::<T, N>(logits, row * width, width);
        let target = u32::cast_from(targets[row]);
        let is_real = target != smoothing.pad_id;
        let count = f32::cast_from(smoothing.vectors * N::value() as u32);
        if unit == 0 {
            let of_target =
                Vector::<f32, N>::cast_from(logits[row * width + target as usize / N::value()]);
            let mut logit = f32::new(0.0);
            #[unroll]
            for i in 0..N::value() {
                logit = select(
                    target as usize % N::value() == i,
                    of_target.extract(i),
                    logit,
                );
            }
            let plain = log_sum - logit;
            let uniform = log_sum - sum / count;
            let smoothed = plain * (1.0f32 - smoothing.share) + uniform * smoothing.share;
            losses[row] = select(is_real, smoothed, f32::new(0.0));
            losses[rows as usize + row] = select(is_real, plain, f32::new(0.0));
        }
        let spread = smoothing.share / count;
        let mut at = unit;
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
                    select(is_real, values.extract(i) - expected, f32::new(0.0)),
                );
            }
            grads[row * width + at] = Vector::cast_from(values);
            at += THREADS;
        }
    }
}

/// The logarithm of the sum of the exponentials of a row of logits, and the sum of the logits; for
/// all units.
#[cube]
fn sums<T: Float, N: Size>(logits: &[Vector<T, N>], start: usize, width: usize) -> (f32, f32) {
    let mut largest = Shared::<[f32]>::new_slice(THREADS);
    let mut totals = Shared::<[f32]>::new_slice(THREADS);
    let mut sums = Shared::<[f32]>::new_slice(THREADS);
    // Lower than any logit; minus infinity is no number in WGSL.
    let mut own_largest = f32::new(-1e30);
    let mut own_total = f32::new(0.0);
    let mut own_sum = Vector::<f32, N>::new(0.0f32);
    let unit = UNIT_POS as usize;
    let mut at = unit;
    while at < width {
        let values = Vector::<f32, N>::cast_from(logits[start + at]);
        own_sum += values;
        let mut best = values.extract(0usize);
        #[unroll]
        for i in 1..N::value() {
            best = best.max(values.extract(i));
        }
        if best > own_largest {
            own_total *= (own_largest - best).exp();
            own_largest = best;
        }
        let weights = (values - Vector::new(own_largest)).exp();
        own_total += sum::<N>(weights);
        at += THREADS;
    }
    largest[unit] = own_largest;
    totals[unit] = own_total;
    sums[unit] = sum::<N>(own_sum);
    #[unroll]
    for step in 0..comptime!(THREADS.ilog2()) {
        sync_cube();
        let half = comptime!(THREADS >> (step + 1));
        if unit < half {
            let left = largest[unit];
            let right = largest[unit + half];
            let best = left.max(right);
            let total =
                totals[unit] * (left - best).exp() + totals[unit + half] * (right - best).exp();
            let sum = sums[unit] + sums[unit + half];
            largest[unit] = best;
            totals[unit] = total;
            sums[unit] = sum;
        }
    }
    sync_cube();
    (largest[0] + totals[0].ln(), sums[0])
}
