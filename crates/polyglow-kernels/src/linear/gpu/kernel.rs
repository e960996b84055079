//! Sums of columns, which are slopes of biases; on the way to them slopes may go back through a
//! ReLU.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// How many neighboring vectors of a row a cube has.
pub(super) const LANES: usize = 32;
/// How many rows a cube has at once.
pub(super) const ROWS: usize = 8;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Vectors of a row.
    pub(super) width: usize,
    /// Whether slopes count only where `active` is above 0, times `scale`, and are written.
    pub(super) has_relu: bool,
}

/// The sums of every [`ROWS`] of so many rows as there are workgroups along the second axis,
/// `[workgroups, width]`.
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
    let mut own = Vector::<f32, N>::new(0.0f32);
    if column < width {
        let mut row = CUBE_POS_Y as usize * ROWS + group;
        while row < rows as usize {
            let place = row * width + column;
            let mut value = Vector::<f32, N>::cast_from(grad[place]);
            if comptime!(layout.has_relu) {
                let zero = Vector::<f32, N>::new(0.0f32);
                let is_open = Vector::<f32, N>::cast_from(active[place]).greater_than(&zero);
                value = select_many(is_open, value * Vector::new(scale), zero);
                let rounded = Vector::<T, N>::cast_from(value);
                written[place] = rounded;
                value = Vector::cast_from(rounded);
            }
            own += value;
            row += CUBE_COUNT_Y as usize * ROWS;
        }
    }
    let mut all = Shared::<[Vector<f32, N>]>::new_slice(comptime!(ROWS * LANES));
    all[UNIT_POS as usize] = own;
    sync_cube();
    if group == 0 && column < width {
        let mut sum = all[lane];
        for other in 1..ROWS {
            sum += all[other * LANES + lane];
        }
        sums[CUBE_POS_Y as usize * width + column] = sum;
    }
}
