//! Products whose right factor is copied once and multiplied by often, as a search does with the
//! weights of a model.
//!
//! The innermost loop has the sums of some rows and of as many columns as two vectors hold in
//! registers, and goes through the terms. In a panel the numbers of these columns lie side by side,
//! so that it is read from one end to the other. An element is the sum of its terms in their order:
//! bits depend on the instructions of a machine, and neither on threads nor on other rows.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::Matrix;
use crate::flex::vector::LANES;

/// Vectors in a row of a panel.
const VECTORS: usize = 2;
/// Rows of the left factor in a task: whole tiles of every kernel, and few enough to stay in a
/// cache while the panels go by.
const ROWS: usize = 240;
/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// A right factor, `[terms, columns]`, as panels of `[terms, width]`, one after the other. Columns
/// beyond the last are zeros.
pub(crate) struct Panels {
    values: Vec<f32>,
    terms: usize,
    columns: usize,
    width: usize,
}

impl Panels {
    /// On this core: it is called with a lock held, under which a thread must not take over work of
    /// others, which may want the same.
    pub(crate) fn new(right: Matrix<'_>) -> Self {
        let terms = right.shape.rows;
        let columns = right.shape.columns;
        let width = Arch::new().dispatch(Width);
        let mut values = vec![0.0; columns.next_multiple_of(width) * terms];
        for (number, panel) in values.chunks_exact_mut((width * terms).max(1)).enumerate() {
            for (term, row) in panel.chunks_exact_mut(width).enumerate() {
                row.iter_mut()
                    .zip(number * width..columns)
                    .for_each(|(value, column)| *value = right.at(term, column));
            }
        }
        Self {
            values,
            terms,
            columns,
            width,
        }
    }

    /// Terms and columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.terms, self.columns]
    }

    /// `left right` in f32, on all cores, for contiguous rows on the left.
    pub(crate) fn product(&self, left: Matrix<'_>) -> Vec<f32> {
        let Self { terms, columns, .. } = *self;
        let found = (left.shape.columns, left.shape.column_stride);
        assert_eq!(found, (terms, 1), "the left factor of a product by panels");
        let rows = left.shape.rows;
        let count = rows
            .checked_mul(columns)
            .expect("a product that memory can hold");
        let mut values = Vec::with_capacity(count);
        if terms == 0 {
            values.resize(count, 0.0);
            return values;
        }
        let copied = apart(left);
        let left = copied.as_ref().map_or(left, |(copied, stride)| {
            Matrix::strided(copied, rows, terms, *stride)
        });
        let result = Start(values.as_mut_ptr());
        let num_panels = self.values.len() / (self.width * terms);
        let task = |task: usize| {
            let first = task / num_panels * ROWS;
            self.multiply(
                left.some_rows(first, ROWS.min(rows - first)),
                task % num_panels,
                result.at(first * columns),
            );
        };
        let tasks = 0..rows.div_ceil(ROWS) * num_panels;
        if count.saturating_mul(terms) < PARALLEL {
            tasks.for_each(task);
        } else {
            tasks.into_par_iter().for_each(task);
        }
        #[expect(
            unsafe_code,
            reason = "zeroes that are overwritten cost as much as a small product"
        )]
        // SAFETY: Every column of every row was written.
        unsafe {
            values.set_len(count);
        }
        values
    }

    /// Writes the columns of a panel of the product with some rows, which begins at `result` and
    /// has all columns.
    fn multiply(&self, left: Matrix<'_>, number: usize, result: *mut f32) {
        let Self {
            terms,
            columns,
            width,
            ..
        } = *self;
        let first = number * width;
        let panel = &self.values[number * width * terms..][..width * terms];
        let start = result.wrapping_add(first);
        if first + width <= columns {
            return Arch::new().dispatch(Multiply {
                left,
                panel,
                output: Output {
                    start,
                    stride: columns,
                },
            });
        }
        // The last panel is wider than what is left.
        let mut whole = vec![0.0; left.shape.rows * width];
        Arch::new().dispatch(Multiply {
            left,
            panel,
            output: Output {
                start: whole.as_mut_ptr(),
                stride: width,
            },
        });
        for (row, sums) in whole.chunks_exact(width).enumerate() {
            #[expect(unsafe_code, reason = "columns of a matrix are no slices")]
            // SAFETY: The result has room for so many numbers of this row, which no other thread
            // writes to.
            unsafe {
                sums.as_ptr()
                    .copy_to_nonoverlapping(start.wrapping_add(row * columns), columns - first);
            }
        }
    }
}

/// A copy whose rows begin at other distances, and that distance, of a matrix whose numbers of one
/// column would all fall onto the same set of a cache, which has fewer lines than the rows that are
/// read together.
fn apart(left: Matrix<'_>) -> Option<(Vec<f32>, usize)> {
    /// Numbers in 4 KiB, after which the sets of the first cache repeat.
    const REPEATS: usize = 1024;
    /// Lines in a set, at least.
    const LINES: usize = 8;
    let rows = left.shape.rows;
    let stride = left.shape.row_stride;
    if rows <= LINES || !stride.is_multiple_of(REPEATS) {
        return None;
    }
    let wider = stride + LANES;
    let mut copied = vec![0.0; rows * wider];
    for (row, copy) in copied.chunks_exact_mut(wider).enumerate() {
        copy[..left.shape.columns].copy_from_slice(left.row(row));
    }
    Some((copied, wider))
}

/// Where a matrix begins that several threads write to, each its own rows and columns.
struct Start(*mut f32);

impl Start {
    fn at(&self, place: usize) -> *mut f32 {
        self.0.wrapping_add(place)
    }
}

#[expect(
    unsafe_code,
    reason = "a pointer may go to other threads if what is done with it there may be done there"
)]
// SAFETY: Only [`Panels::product`] writes through it, no two threads to the same place.
unsafe impl Sync for Start {}

/// Numbers in a row of a panel.
struct Width;

impl WithSimd for Width {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        VECTORS * S::F32_LANES
    }
}

/// As many columns of a product as a panel has, with room for all rows of the left factor; they
/// need not be initialized.
#[derive(Clone, Copy)]
struct Output {
    start: *mut f32,
    /// From a row to the next.
    stride: usize,
}

/// Writes the product of all rows and a panel.
struct Multiply<'a> {
    left: Matrix<'a>,
    panel: &'a [f32],
    output: Output,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        assert_eq!(
            self.panel.len(),
            self.left.shape.columns * VECTORS * S::F32_LANES,
            "the width of a panel"
        );
        let mut first = 0;
        // As many rows as there are registers for, with two vectors of sums each: 27 of 32, or 15
        // of 16, which is also what WebAssembly has on most machines. The rest by fewer and fewer.
        if S::REGISTER_COUNT >= 32 && cfg!(not(target_arch = "wasm32")) {
            first = self.all_of::<S, 12>(simd, first);
            first = self.all_of::<S, 8>(simd, first);
        } else {
            first = self.all_of::<S, 6>(simd, first);
            first = self.all_of::<S, 5>(simd, first);
        }
        first = self.all_of::<S, 4>(simd, first);
        first = self.all_of::<S, 3>(simd, first);
        first = self.all_of::<S, 2>(simd, first);
        self.all_of::<S, 1>(simd, first);
    }
}

impl Multiply<'_> {
    /// As long as there are so many rows, from `first` on; returns the first of the rest.
    #[inline(always)]
    fn all_of<S: Simd, const ROWS: usize>(&self, simd: S, mut first: usize) -> usize {
        while first + ROWS <= self.left.shape.rows {
            self.rows::<S, ROWS>(simd, first);
            first += ROWS;
        }
        first
    }

    #[inline(always)]
    fn rows<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
        let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
        for (row, values) in rows.iter_mut().enumerate() {
            *values = self.left.row(first + row);
        }
        let (panel, _) = S::as_simd_f32s(self.panel);
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for (term, columns) in panel.as_chunks::<VECTORS>().0.iter().enumerate() {
            for row in 0..ROWS {
                let value = simd.splat_f32s(rows[row][term]);
                for vector in 0..VECTORS {
                    sums[row][vector] =
                        simd.mul_add_e_f32s(value, columns[vector], sums[row][vector]);
                }
            }
        }
        let Output { start, stride } = self.output;
        for (row, sums) in sums.into_iter().enumerate() {
            let to = start
                .wrapping_add((first + row) * stride)
                .cast::<[S::f32s; VECTORS]>();
            #[expect(unsafe_code, reason = "columns of a matrix are no slices")]
            // SAFETY: From there on the row has as many numbers as a panel, and no other thread
            // writes to them.
            unsafe {
                to.write_unaligned(sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Factors;
    use crate::flex::tests::{assert_near, on_threads};

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|place| ((place * 7 + seed) as f64 * 0.618_034).fract() as f32 * 2.0 - 1.0)
            .collect()
    }

    #[test]
    fn a_factor_in_panels_gives_the_product() {
        // Every number of rows that the loop has, one after the other, and panels that are full and
        // not.
        for (rows, terms, columns) in [
            (0, 3, 5),
            (1, 1, 1),
            (2, 5, 16),
            (7, 33, 31),
            (10, 7, 40),
            (11, 20, 33),
            (33, 20, 32),
            (39, 64, 300),
            (3, 0, 4),
        ] {
            let left = numbers(rows * terms, 1);
            let right = numbers(terms * columns, 2);
            let left = Matrix::new(&left, rows, terms);
            for right in [
                Matrix::new(&right, terms, columns),
                Matrix::new(&right, columns, terms).transposed(),
            ] {
                let actual = Panels::new(right).product(left);
                assert_near(
                    &actual,
                    &super::super::product(left, right, Factors::F32),
                    1e-5,
                );
            }
        }
    }

    #[test]
    fn neither_threads_nor_other_rows_change_the_bits() {
        // The second begins at distances that are multiples of 4 KiB, where more than eight rows
        // are copied.
        for (terms, stride) in [(70, 70), (70, 1_024)] {
            let left = numbers(300 * stride, 1);
            let right = numbers(terms * 300, 2);
            let panels = Panels::new(Matrix::new(&right, terms, 300));
            let bits = |threads, rows| -> Vec<u32> {
                let product = || panels.product(Matrix::strided(&left, rows, terms, stride));
                on_threads(threads, product)
                    .into_iter()
                    .map(f32::to_bits)
                    .collect()
            };
            let expected = bits(1, 300);
            for (threads, rows) in [(2, 300), (3, 300), (1, 1), (2, 11), (1, 38)] {
                assert!(
                    bits(threads, rows) == expected[..rows * 300],
                    "{rows} rows on {threads} threads"
                );
            }
        }
    }
}
