//! A residual sum with its dropout and its layer normalization, forward and backward, with the
//! formulas of [`crate::layer_norm()`] for `x = residual + input * mask`.
//!
//! # Layout
//! A workgroup is [`ROWS`] x [`LANES`] threads and has a row for each [`LANES`] of them: thread
//! `lane` keeps the vectors `lane`, `lane + LANES`, and so on, of its row in registers, so that
//! neighboring threads read neighboring memory and a row is read once, though the formulas visit it
//! three times. Sums over a row go through shared memory.
//!
//! The gradients of `gamma` and `beta` are sums over all rows. In the backward pass a workgroup
//! visits many rows, sums up per thread, then over its threads, and leaves one row of partial sums,
//! which a small sum adds up: no atomic additions, so the order is the same in every run.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::dropout::gpu::mask::{DropoutMask, scales_at};
use crate::gpu::vector::{sum, zeros};

/// Threads that share a row.
pub(super) const LANES: usize = 32;
/// Rows that a workgroup has at once.
pub(super) const ROWS: usize = 8;

/// The values that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Vectors in a row.
    pub(super) width: usize,
    /// Whether a residual is added to the input.
    pub(super) has_residual: bool,
    pub(super) has_dropout: bool,
}

/// The position of a thread in its workgroup.
#[derive(CubeType)]
struct Position {
    /// The index of the thread among the [`LANES`] threads of its row.
    lane: usize,
    /// The row, counted within the workgroup.
    row: usize,
}

/// The [`Position`] of this thread.
#[cube]
fn position() -> Position {
    Position {
        lane: UNIT_POS as usize % LANES,
        row: UNIT_POS as usize / LANES,
    }
}

/// Writes the output, `y`, and the scale of each row.
#[cube(launch)]
pub(super) fn forward<T: Float, N: Size>(
    residual: &[Vector<f32, N>],
    input: &[Vector<T, N>],
    gamma: &[Vector<f32, N>],
    beta: &[Vector<f32, N>],
    output: &mut [Vector<f32, N>],
    normalized: &mut [Vector<f32, N>],
    scales: &mut [f32],
    rows: u32,
    epsilon: f32,
    mask: DropoutMask,
    #[comptime] layout: Layout,
    #[define(T)] _type: ElemType,
) {
    let width = comptime!(layout.width);
    let position = position();
    let row = CUBE_POS * ROWS + position.row;
    let has_row = row < rows as usize;
    let mut sums = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    // This thread's part of the row `x = residual + input * mask`, and its sum.
    let mut values = zeros::<N>(comptime!(width.div_ceil(LANES)));
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..comptime!(width.div_ceil(LANES)) {
        let column = position.lane + i * LANES;
        if has_row && column < width {
            let index = row * width + column;
            let mut value = Vector::<f32, N>::cast_from(input[index]);
            if comptime!(layout.has_dropout) {
                value *= scales_at::<N>(&mask, index);
            }
            if comptime!(layout.has_residual) {
                value += residual[index];
            }
            values[i] = value;
            sum += value;
        }
    }
    let count = comptime!(width as f32) * f32::cast_from(N::value());
    // Threads without a row take part with zeros: the total has a barrier.
    let mean = total::<N>(&mut sums, sum, position.row) / count;
    // The squares of differences in a pass of their own, over registers: `mean(x²) - mean(x)²`
    // would lose digits.
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..comptime!(width.div_ceil(LANES)) {
        if position.lane + i * LANES < width {
            let centered = values[i] - Vector::new(mean);
            sum += centered * centered;
        }
    }
    let variance = total::<N>(&mut squares, sum, position.row) / count;
    let scale = 1.0f32 / (variance + epsilon).sqrt();
    if has_row {
        #[unroll]
        for i in 0..comptime!(width.div_ceil(LANES)) {
            let column = position.lane + i * LANES;
            if column < width {
                let value = (values[i] - Vector::new(mean)) * Vector::new(scale);
                normalized[row * width + column] = value;
                output[row * width + column] = value * gamma[column] + beta[column];
            }
        }
        // One of the threads of a row writes what all of them know.
        if position.lane == 0 {
            scales[row] = scale;
        }
    }
}

/// Writes the gradients of the sum and of the input, and for each workgroup the sums of those of
/// `gamma` and `beta`, `[workgroups, 2, width]`.
#[cube(launch)]
pub(super) fn backward<T: Float, N: Size>(
    grad_output: &[Vector<f32, N>],
    normalized: &[Vector<f32, N>],
    scales: &[f32],
    gamma: &[Vector<f32, N>],
    grad_sum: &mut [Vector<f32, N>],
    grad_input: &mut [Vector<T, N>],
    grad_affine: &mut [Vector<f32, N>],
    rows: u32,
    mask: DropoutMask,
    #[comptime] layout: Layout,
    #[comptime] writes_input: bool,
    #[define(T)] _type: ElemType,
) {
    let width = comptime!(layout.width);
    let position = position();
    let mut means = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut products = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut grad_gamma = zeros::<N>(comptime!(width.div_ceil(LANES)));
    let mut grad_beta = zeros::<N>(comptime!(width.div_ceil(LANES)));
    // Elements in a row.
    let count = comptime!(width as f32) * f32::cast_from(N::value());
    // Rows `CUBE_POS * ROWS`, then those that are a whole grid of workgroups further, and so on.
    let mut first = CUBE_POS * ROWS;
    while first < rows as usize {
        let row = first + position.row;
        let has_row = row < rows as usize;
        // `h = g * gamma` and `y`, with the sums of `h` and of `h * y`.
        let mut grad_normalized = zeros::<N>(comptime!(width.div_ceil(LANES)));
        let mut values = zeros::<N>(comptime!(width.div_ceil(LANES)));
        let mut sum = Vector::<f32, N>::new(0.0f32);
        let mut product = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for i in 0..comptime!(width.div_ceil(LANES)) {
            let column = position.lane + i * LANES;
            if has_row && column < width {
                let grad = grad_output[row * width + column];
                let value = normalized[row * width + column];
                grad_gamma[i] += grad * value;
                grad_beta[i] += grad;
                grad_normalized[i] = grad * gamma[column];
                values[i] = value;
                sum += grad_normalized[i];
                product += grad_normalized[i] * value;
            }
        }
        // Every thread has read the sums of the rows before: shared memory may be overwritten.
        sync_cube();
        let mean = total::<N>(&mut means, sum, position.row) / count;
        let product = total::<N>(&mut products, product, position.row) / count;
        if has_row {
            let scale = Vector::new(scales[row]);
            #[unroll]
            for i in 0..comptime!(width.div_ceil(LANES)) {
                let column = position.lane + i * LANES;
                if column < width {
                    let index = row * width + column;
                    // dx = scale (h - mean(h) - y * mean(h * y))
                    let value =
                        (grad_normalized[i] - Vector::new(mean) - values[i] * Vector::new(product))
                            * scale;
                    grad_sum[index] = value;
                    if writes_input {
                        let mut dropped = value;
                        if comptime!(layout.has_dropout) {
                            dropped *= scales_at::<N>(&mask, index);
                        }
                        grad_input[index] = Vector::cast_from(dropped);
                    }
                }
            }
        }
        first += CUBE_COUNT * ROWS;
    }
    sum_rows::<N>(&grad_gamma, &grad_beta, grad_affine, &position, width);
}

/// Writes the sums over all threads of the workgroup.
#[cube]
fn sum_rows<N: Size>(
    grad_gamma: &Array<Vector<f32, N>>,
    grad_beta: &Array<Vector<f32, N>>,
    grad_affine: &mut [Vector<f32, N>],
    position: &Position,
    #[comptime] width: usize,
) {
    // `gamma` first, then `beta`.
    let mut all = Shared::<[Vector<f32, N>]>::new_slice(comptime!(2 * width));
    // One row of threads after the other, so that sums are the same in every run.
    for turn in 0..ROWS {
        sync_cube();
        if position.row == turn {
            #[unroll]
            for i in 0..comptime!(width.div_ceil(LANES)) {
                let column = position.lane + i * LANES;
                if column < width {
                    if turn == 0 {
                        all[column] = grad_gamma[i];
                        all[width + column] = grad_beta[i];
                    } else {
                        all[column] += grad_gamma[i];
                        all[width + column] += grad_beta[i];
                    }
                    if turn == ROWS - 1 {
                        let start = CUBE_POS * comptime!(2 * width) + column;
                        grad_affine[start] = all[column];
                        grad_affine[start + width] = all[width + column];
                    }
                }
            }
        }
    }
}

/// The sum over the threads of a row, returned to each of them.
#[cube]
fn total<N: Size>(shared: &mut Shared<[f32]>, part: Vector<f32, N>, row: usize) -> f32 {
    shared[UNIT_POS as usize] = sum::<N>(part);
    sync_cube();
    let mut total = 0.0f32;
    for lane in 0..LANES {
        total += shared[row * LANES + lane];
    }
    total
}
