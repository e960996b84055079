//! The innermost loop with WebAssembly's vectors of 128 bits.
//!
//! There is no sum of products of bytes, but `i32x4_dot_i16x8` adds pairs of products of 16 bits.
//! So bytes are widened to 16 bits: those at even positions of four inputs and those at odd ones,
//! in two vectors each.

use std::arch::wasm32::{
    i16x8_shl, i16x8_shr, i16x8_splat, i32x4_add, i32x4_dot_i16x8, i32x4_extract_lane, i32x4_splat,
    u16x8_shr, v128, v128_and, v128_load,
};

use super::super::product::Task;
use super::super::{GROUP, Group, PANEL};
use super::in_tiles;

/// Vectors in a group.
const PARTS: usize = 4;

/// Runs a task.
pub(super) fn run(task: Task<'_>) {
    // The sums of two rows take 8 of the 16 vector registers that most processors have.
    in_tiles!(task, tile, [1 2], 1);
}

#[inline]
fn tile<const ROWS: usize, const PANELS: usize>(task: &mut Task<'_>, row: usize, panel: usize) {
    let rows = task.rows::<ROWS>(row);
    for (panel, weights) in (panel..).zip(task.columns::<PANELS>(panel)) {
        let mut sums = [[i32x4_splat(0); PARTS]; ROWS];
        for (group, weights) in weights.iter().enumerate() {
            let weights = widened(weights);
            for (sums, bytes) in sums.iter_mut().zip(rows) {
                let values = i32x4_splat(i32::from_ne_bytes(bytes[group]));
                let even = v128_and(values, i16x8_splat(255));
                let odd = u16x8_shr(values, 8);
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    let products = i32x4_add(
                        i32x4_dot_i16x8(even, weights[0]),
                        i32x4_dot_i16x8(odd, weights[1]),
                    );
                    *sum = i32x4_add(*sum, products);
                }
            }
        }
        for (row, sums) in (row..).zip(sums) {
            let mut sums_of_panel = [0; PANEL];
            for (lanes, sum) in sums_of_panel.as_chunks_mut().0.iter_mut().zip(sums) {
                *lanes = [
                    i32x4_extract_lane::<0>(sum),
                    i32x4_extract_lane::<1>(sum),
                    i32x4_extract_lane::<2>(sum),
                    i32x4_extract_lane::<3>(sum),
                ];
            }
            task.write(row, panel, &[sums_of_panel]);
        }
    }
}

/// The weights of a group in 16 bits: for each vector those at even positions and those at odd
/// ones.
#[inline(always)]
fn widened(group: &Group) -> [[v128; 2]; PARTS] {
    let bytes = group.0.as_chunks::<{ 4 * GROUP }>().0;
    std::array::from_fn(|part| {
        #[expect(unsafe_code, reason = "there is no other way into a vector")]
        // SAFETY: 16 bytes are read from an array of as many, at any alignment.
        let weights = unsafe { v128_load(bytes[part].as_ptr().cast()) };
        [i16x8_shr(i16x8_shl(weights, 8), 8), i16x8_shr(weights, 8)]
    })
}
