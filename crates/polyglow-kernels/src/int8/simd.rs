//! The innermost loop of a product of 8-bit integers, for each instruction set that has
//! instructions for it, and for all others. All give the same bits.
//!
//! A tile is a few rows by a few panels:
//! `sums[row][panel][output] = Σ over groups, Σ over the 4 inputs of a group, row byte * weight`.
//! The sums of a tile stay in registers while the loop goes through the groups, which are read from
//! one end to the other; then `(sum - excess) * row scale * output scale`, plus a bias, goes to the
//! output.

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;

use super::product::{Negative, Task};
use super::{GROUP, Group, PANEL};

/// The sums of a row and a panel, one for each output.
type Sums = [i32; PANEL];

/// Goes through a task in tiles of the largest `$row` rows and `$panels` panels; at its ends, of
/// fewer rows and of one panel.
///
/// Panels are the outer loop, so that their weights are read from memory once and stay in the cache
/// for all rows. The numbers of rows are literals, since sums stay in registers only if their count
/// is known to the compiler. It is a macro because only code inside of a function with a CPU's
/// features is compiled for them.
macro_rules! in_tiles {
    ($task:ident, $tile:ident, [$($row:literal)+], $panels:literal) => {{
        let most = [$($row),+].len();
        let mut task = $task;
        let mut panel = task.panels.start;
        while panel < task.panels.end {
            let wide = task.panels.end - panel >= $panels;
            for row in (0..task.scales.len()).step_by(most) {
                match (most.min(task.scales.len() - row), wide) {
                    $(
                        ($row, true) => $tile::<$row, $panels>(&mut task, row, panel),
                        ($row, false) => $tile::<$row, 1>(&mut task, row, panel),
                    )+
                    _ => unreachable!("a tile has at least one row"),
                }
            }
            panel += if wide { $panels } else { 1 };
        }
    }};
}
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
use in_tiles;

impl<'a, I> Task<'a, I> {
    /// The groups of `ROWS` rows from `first` on, as slices of equal length, so that the loop over
    /// groups needs no bounds checks.
    #[inline(always)]
    fn rows<const ROWS: usize>(&self, first: usize) -> [&'a [I]; ROWS] {
        let groups = self.matrix.groups();
        let mut rows = [&self.input[..groups]; ROWS];
        for (row, bytes) in (first..).zip(&mut rows) {
            *bytes = &self.input[row * groups..][..groups];
        }
        rows
    }

    /// The weights of `PANELS` panels from `first` on, as slices of that length as well.
    #[inline(always)]
    fn columns<const PANELS: usize>(&self, first: usize) -> [&'a [Group]; PANELS] {
        let groups = self.matrix.groups();
        let mut panels = [&self.matrix.bytes[..groups]; PANELS];
        for (panel, weights) in (first..).zip(&mut panels) {
            *weights = &self.matrix.bytes[panel * groups..][..groups];
        }
        panels
    }

    /// Scales and finishes the sums of a row and of neighboring panels, and writes them to the
    /// output.
    #[inline(always)]
    fn write<const PANELS: usize>(&mut self, row: usize, panel: usize, sums: &[Sums; PANELS]) {
        // The output of a task has the columns of its panels alone.
        let first = self.panels.start * PANEL;
        let column = panel * PANEL;
        let width = self.matrix.d_out.min(self.panels.end * PANEL) - first;
        let output = &mut self.output[row * width..][column - first..width];
        // The last panel may be wider than what is left.
        let len = output.len().min(PANELS * PANEL);
        let output = &mut output[..len];
        let sums = &sums.as_flattened()[..len];
        let row_scale = self.scales[row];
        let scales = &self.matrix.scales.as_flattened()[column..][..len];
        let excess = &self.matrix.excess.as_flattened()[column..][..len];
        let values = sums.iter().zip(excess).zip(scales);
        // Subtracted as integers, where it is exact.
        let values =
            values.map(|((sum, excess), scale)| (sum - excess) as f32 * (row_scale * scale));
        // Four loops instead of one with branches for each element.
        let bias = self.finish.bias.map(|bias| &bias[column..][..len]);
        match (bias, self.finish.negative) {
            (None, Negative::Kept) => write(output, values),
            (None, Negative::Zeroed) => write(output, values.map(rectified)),
            (Some(bias), Negative::Kept) => {
                write(output, values.zip(bias).map(|(value, bias)| value + bias));
            }
            (Some(bias), Negative::Zeroed) => {
                write(
                    output,
                    values
                        .zip(bias)
                        .map(|(value, bias)| rectified(value + bias)),
                );
            }
        }
    }
}

/// The ReLU, written so that NaN propagates; `f32::max` would turn it into 0.
#[inline(always)]
fn rectified(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

/// Writes values to the output, which need not be initialized.
#[inline(always)]
fn write(output: &mut [MaybeUninit<f32>], values: impl Iterator<Item = f32>) {
    for (output, value) in output.iter_mut().zip(values) {
        *output = MaybeUninit::new(value);
    }
}

/// Runs a task with the best instructions that this CPU has.
pub(super) fn run(task: Task<'_>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(run) = x86::all().next() {
        return run(task);
    }
    portable(task);
}

/// All ways to run a task on this CPU.
#[cfg(test)]
pub(super) fn all() -> Vec<fn(Task<'_>)> {
    let mut all: Vec<fn(Task<'_>)> = vec![portable];
    #[cfg(target_arch = "x86_64")]
    all.extend(x86::all());
    all
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use wasm::run as portable;

/// Runs a task on any machine: the compiler vectorizes what it can.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn portable(task: Task<'_>) {
    in_tiles!(task, tile, [1], 2);
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn tile<const ROWS: usize, const PANELS: usize>(task: &mut Task<'_>, row: usize, panel: usize) {
    for (row, bytes) in (row..).zip(task.rows::<ROWS>(row)) {
        for (panel, weights) in (panel..).zip(task.columns::<PANELS>(panel)) {
            let mut sums = [0; PANEL];
            for (values, weights) in bytes.iter().zip(weights) {
                for (sum, weights) in sums.iter_mut().zip(weights.0.as_chunks::<GROUP>().0) {
                    let products = values
                        .iter()
                        .zip(weights)
                        .map(|(value, weight)| i32::from(*value) * i32::from(*weight));
                    *sum += products.sum::<i32>();
                }
            }
            task.write(row, panel, &[sums]);
        }
    }
}
