//! Sums over the rows of a matrix, and a row added to every row, on all cores.
//!
//! A matrix is a slice of contiguous rows of `width` elements. `sum[j] = Σ_i rows[i][j]` is the
//! gradient of a bias; it is summed in blocks of [`BLOCK`] rows, one task each, and the sums of
//! blocks are then added in their order. Blocks have a fixed size, so the bits of a sum do not
//! depend on the number of threads.

use rayon::prelude::*;

use crate::flex::vector::{Kernel, vectorized};

/// Rows that are summed together in a task. Results depend on it: it is not a tuning knob.
pub(crate) const BLOCK: usize = 64;
/// Elements below which threads cost more than they save.
const PARALLEL: usize = 1 << 14;

/// Adds a row to each of some rows.
struct Add<'a> {
    /// `[rows, width]`, overwritten.
    rows: &'a mut [f32],
    /// `[width]`.
    row: &'a [f32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for values in self.rows.chunks_exact_mut(self.row.len()) {
            for (value, addend) in values.iter_mut().zip(self.row) {
                *value += addend;
            }
        }
    }
}

/// Adds `row` to every row of `rows`.
pub(crate) fn add_to_rows(rows: &mut [f32], row: &[f32]) {
    let block = rows_per_task(row.len()) * row.len();
    if rows.len() <= block {
        // Waking another thread would take longer.
        return vectorized(Add { rows, row });
    }
    // Chunks of length 0, as of rows without elements, panic.
    rows.par_chunks_mut(block.max(1))
        .for_each(|rows| vectorized(Add { rows, row }));
}

/// Adds each of some rows to `sum`.
struct Sum<'a> {
    /// `[width]`, which is added to.
    sum: &'a mut [f32],
    /// `[rows, width]`.
    rows: &'a [f32],
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for values in self.rows.chunks_exact(self.sum.len()) {
            for (sum, value) in self.sum.iter_mut().zip(values) {
                *sum += value;
            }
        }
    }
}

/// The sum of all rows, `[width]`.
pub(crate) fn sum_of_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let blocks: Vec<Vec<f32>> = rows
        .par_chunks((BLOCK * width).max(1))
        .map(|block| sum_of_block(block, width))
        .collect();
    total_of_blocks(&blocks, width)
}

/// The sum of some rows, on this core.
fn sum_of_block(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    vectorized(Sum {
        sum: &mut sum,
        rows,
    });
    sum
}

/// The sum of the sums of blocks of rows, `[width]`.
pub(crate) fn total_of_blocks(blocks: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    // In their order and not as threads finish: floating-point addition is not associative.
    for block in blocks {
        for (total, sum) in total.iter_mut().zip(block) {
            *total += sum;
        }
    }
    total
}

/// The number of rows of this width that are worth a task: at least one, however wide.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (PARALLEL / width.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_and_added_to() {
        let mut rows: Vec<f32> = (0..300 * 3).map(|value| (value % 7) as f32).collect();
        let expected: Vec<f32> = (0..3)
            .map(|column| rows.iter().skip(column).step_by(3).sum())
            .collect();
        assert_eq!(sum_of_rows(&rows, 3), expected);
        add_to_rows(&mut rows, &[1.0, 0.0, -1.0]);
        let expected: Vec<f32> = expected
            .iter()
            .zip([300.0, 0.0, -300.0])
            .map(|(sum, add)| sum + add)
            .collect();
        assert_eq!(sum_of_rows(&rows, 3), expected);
    }
}
