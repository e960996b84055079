//! A residual sum with its dropout, and the norm of it: a row is read once, and kept by the units
//! that have it.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::dropout::gpu::draw::{Draw, scale_of};
use crate::gpu::vector::{sum, zeros};

/// How many units have a row.
pub(super) const LANES: usize = 32;
/// How many rows a cube has at once.
pub(super) const ROWS: usize = 8;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Vectors of a row.
    pub(super) width: usize,
    /// Whether what is normalized is a sum.
    pub(super) has_residual: bool,
    pub(super) has_dropout: bool,
}

/// What a unit has of a row: every [`LANES`]th vector.
#[derive(CubeType)]
struct Own {
    lane: usize,
    /// Of the rows of the cube.
    row: usize,
}

#[cube]
fn own() -> Own {
    Own {
        lane: UNIT_POS as usize % LANES,
        row: UNIT_POS as usize / LANES,
    }
}

/// `y * gamma + beta`, `y`, and one over the standard deviation of each row, as
/// [`layer_norm`](crate::layer_norm()) has them.
#[cube(launch)]
pub(super) fn forward<T: Float, N: Size>(
    residual: &[Vector<f32, N>],
    input: &[Vector<T, N>],
    gamma: &[Vector<f32, N>],
    beta: &[Vector<f32, N>],
    output: &mut [Vector<f32, N>],
    standard: &mut [Vector<f32, N>],
    scales: &mut [f32],
    rows: u32,
    epsilon: f32,
    draw: Draw,
    #[comptime] layout: Layout,
    #[define(T)] _type: ElemType,
) {
    let width = comptime!(layout.width);
    let own = own();
    let row = CUBE_POS * ROWS + own.row;
    let has_row = row < rows as usize;
    let mut sums = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut squares = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut values = zeros::<N>(comptime!(width.div_ceil(LANES)));
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..comptime!(width.div_ceil(LANES)) {
        let at = own.lane + i * LANES;
        if has_row && at < width {
            let place = row * width + at;
            let mut value = Vector::<f32, N>::cast_from(input[place]);
            if comptime!(layout.has_dropout) {
                value *= scale_of::<N>(&draw, place);
            }
            if comptime!(layout.has_residual) {
                value += residual[place];
            }
            values[i] = value;
            sum += value;
        }
    }
    let count = comptime!(width as f32) * f32::cast_from(N::value());
    let mean = total::<N>(&mut sums, sum, own.row) / count;
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..comptime!(width.div_ceil(LANES)) {
        if own.lane + i * LANES < width {
            let centered = values[i] - Vector::new(mean);
            sum += centered * centered;
        }
    }
    let variance = total::<N>(&mut squares, sum, own.row) / count;
    let scale = 1.0f32 / (variance + epsilon).sqrt();
    if has_row {
        #[unroll]
        for i in 0..comptime!(width.div_ceil(LANES)) {
            let at = own.lane + i * LANES;
            if at < width {
                let value = (values[i] - Vector::new(mean)) * Vector::new(scale);
                standard[row * width + at] = value;
                output[row * width + at] = value * gamma[at] + beta[at];
            }
        }
        if own.lane == 0 {
            scales[row] = scale;
        }
    }
}

/// BackwardPass of the residual and of the input, and for each cube sums of those of `gamma` and of
/// `beta`, `[workgroups, 2, width]`.
#[cube(launch)]
pub(super) fn gradients<T: Float, N: Size>(
    grad: &[Vector<f32, N>],
    standard: &[Vector<f32, N>],
    scales: &[f32],
    gamma: &[Vector<f32, N>],
    grad_sum: &mut [Vector<f32, N>],
    grad_input: &mut [Vector<T, N>],
    grad_affine: &mut [Vector<f32, N>],
    rows: u32,
    draw: Draw,
    #[comptime] layout: Layout,
    #[comptime] writes_input: bool,
    #[define(T)] _type: ElemType,
) {
    let width = comptime!(layout.width);
    let own = own();
    let mut means = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut products = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let mut grad_gamma = zeros::<N>(comptime!(width.div_ceil(LANES)));
    let mut grad_beta = zeros::<N>(comptime!(width.div_ceil(LANES)));
    let count = comptime!(width as f32) * f32::cast_from(N::value());
    let mut first = CUBE_POS * ROWS;
    while first < rows as usize {
        let row = first + own.row;
        let has_row = row < rows as usize;
        let mut weighted = zeros::<N>(comptime!(width.div_ceil(LANES)));
        let mut values = zeros::<N>(comptime!(width.div_ceil(LANES)));
        let mut sum = Vector::<f32, N>::new(0.0f32);
        let mut product = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for i in 0..comptime!(width.div_ceil(LANES)) {
            let at = own.lane + i * LANES;
            if has_row && at < width {
                let own_slope = grad[row * width + at];
                let value = standard[row * width + at];
                grad_gamma[i] += own_slope * value;
                grad_beta[i] += own_slope;
                weighted[i] = own_slope * gamma[at];
                values[i] = value;
                sum += weighted[i];
                product += weighted[i] * value;
            }
        }
        // What the rows before have shared was read.
        sync_cube();
        let mean = total::<N>(&mut means, sum, own.row) / count;
        let product = total::<N>(&mut products, product, own.row) / count;
        if has_row {
            let scale = Vector::new(scales[row]);
            #[unroll]
            for i in 0..comptime!(width.div_ceil(LANES)) {
                let at = own.lane + i * LANES;
                if at < width {
                    let place = row * width + at;
                    let value =
                        (weighted[i] - Vector::new(mean) - values[i] * Vector::new(product))
                            * scale;
                    grad_sum[place] = value;
                    if writes_input {
                        let mut dropped = value;
                        if comptime!(layout.has_dropout) {
                            dropped *= scale_of::<N>(&draw, place);
                        }
                        grad_input[place] = Vector::cast_from(dropped);
                    }
                }
            }
        }
        first += CUBE_COUNT * ROWS;
    }
    sum_rows::<N>(&grad_gamma, &grad_beta, grad_affine, &own, width);
}

/// The sums of all rows of units.
#[cube]
fn sum_rows<N: Size>(
    grad_gamma: &Array<Vector<f32, N>>,
    grad_beta: &Array<Vector<f32, N>>,
    grad_affine: &mut [Vector<f32, N>],
    own: &Own,
    #[comptime] width: usize,
) {
    let mut all = Shared::<[Vector<f32, N>]>::new_slice(comptime!(2 * width));
    // One row of units after the other, so that sums are the same in every run.
    for turn in 0..ROWS {
        sync_cube();
        if own.row == turn {
            #[unroll]
            for i in 0..comptime!(width.div_ceil(LANES)) {
                let at = own.lane + i * LANES;
                if at < width {
                    if turn == 0 {
                        all[at] = grad_gamma[i];
                        all[width + at] = grad_beta[i];
                    } else {
                        all[at] += grad_gamma[i];
                        all[width + at] += grad_beta[i];
                    }
                    if turn == ROWS - 1 {
                        let start = CUBE_POS * comptime!(2 * width) + at;
                        grad_affine[start] = all[at];
                        grad_affine[start + width] = all[width + at];
                    }
                }
            }
        }
    }
}

/// A row's sum of what its units have.
#[cube]
fn total<N: Size>(shared: &mut Shared<[f32]>, own: Vector<f32, N>, row: usize) -> f32 {
    shared[UNIT_POS as usize] = sum::<N>(own);
    sync_cube();
    let mut total = 0.0f32;
    for lane in 0..LANES {
        total += shared[row * LANES + lane];
    }
    total
}
