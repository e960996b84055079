//! Sums of the columns of a gradient, and on the way to them the backward pass of a ReLU.
//!
//! `sums[j] = Σ_i g[i][j]` is the gradient of a bias. With a ReLU whose output is `active`, `g` is
//! first replaced by `g scale` where `active > 0` and by 0 elsewhere, and written: one pass over
//! the gradient where separate kernels would make two.
//!
//! # Layout
//! A row of `[rows, width]` is read as vectors. A workgroup is [`ROWS`] x [`LANES`] threads: thread
//! `(group, lane)` sums column `CUBE_POS_X * LANES + lane` of the rows `CUBE_POS_Y * ROWS + group`,
//! `+ CUBE_COUNT_Y * ROWS`, and so on. Neighboring threads read neighboring vectors, so loads are
//! coalesced. Each workgroup leaves one row of partial sums, which a second, small sum adds up:
//! without atomic additions the order of sums is the same in every run.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Neighboring vectors of a row that a workgroup reads at once.
pub(super) const LANES: usize = 32;
/// Rows that a workgroup reads at once.
pub(super) const ROWS: usize = 8;

/// The values that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Vectors in a row.
    pub(super) width: usize,
    /// Whether the gradient goes back through a ReLU and is written.
    pub(super) has_relu: bool,
}

/// Writes to `sums` the partial sums of each row of workgroups, `[workgroups along y, width]`; and
/// with a ReLU what goes back through it to `written`.
#[cube(launch)]
pub(super) fn sum_columns<T: Float, N: Size>(
    grad: &[Vector<T, N>],
    active: &[Vector<T, N>],
    written: &mut [Vector<T, N>],
    sums: &mut [Vector<f32, N>],
    rows: u32,
    scale: f32,
    #[comptime] layout: Layout,
    #[define(T)] _type: ElemType,
) {
    let width = comptime!(layout.width);
    let lane = UNIT_POS as usize % LANES;
    let group = UNIT_POS as usize / LANES;
    let column = CUBE_POS_X as usize * LANES + lane;
    let mut sum_here = Vector::<f32, N>::new(0.0f32);
    // Threads beyond the last column stay for the barrier below.
    if column < width {
        let mut row = CUBE_POS_Y as usize * ROWS + group;
        while row < rows as usize {
            let index = row * width + column;
            let mut value = Vector::<f32, N>::cast_from(grad[index]);
            if comptime!(layout.has_relu) {
                let zero = Vector::<f32, N>::new(0.0f32);
                let is_active = Vector::<f32, N>::cast_from(active[index]).greater_than(&zero);
                value = select_many(is_active, value * Vector::new(scale), zero);
                // The sums are of the rounded gradient, which the products read, too.
                let rounded = Vector::<T, N>::cast_from(value);
                written[index] = rounded;
                value = Vector::cast_from(rounded);
            }
            sum_here += value;
            row += CUBE_COUNT_Y as usize * ROWS;
        }
    }
    // The sums of the threads that share a column are added by the first of them, in their order.
    let mut partial_sums = Shared::<[Vector<f32, N>]>::new_slice(comptime!(ROWS * LANES));
    partial_sums[UNIT_POS as usize] = sum_here;
    sync_cube();
    if group == 0 && column < width {
        let mut sum = partial_sums[lane];
        for other in 1..ROWS {
            sum += partial_sums[other * LANES + lane];
        }
        sums[CUBE_POS_Y as usize * width + column] = sum;
    }
}
