//! Products `A B` in f32 whose right factor is copied once and multiplied by often, as a search
//! does with the weights of a model: a general product would pack `B` again at every step.
//!
//! # Layout
//! `B`, `[terms, columns]`, is cut into panels of `width` columns, where `width` is two SIMD
//! vectors (32 columns with AVX-512, 16 with AVX2). Within a panel the elements of a term lie side
//! by side, and terms follow each other:
//!
//! ```text
//! panel 0: B[0, 0..width]  B[1, 0..width]  ...  B[terms-1, 0..width]
//! panel 1: B[0, width..2*width]  ...
//! ```
//!
//! The last panel is filled up with zeros, so that the loop knows only whole panels.
//!
//! # The innermost loop
//! A tile is a few rows of `A` by one panel. Its sums, two vectors for each row, stay in registers
//! while the loop goes through the terms: it loads two vectors of the panel, broadcasts one element
//! of each row, and adds the products. So the panel is read from one end to the other, each element
//! once per tile, and no sum is written before it is complete.
//!
//! # Reproducibility
//! An element is the sum of its terms in their order, with fused multiply-adds where the machine
//! has them. Its bits depend on the instructions, and neither on the number of threads nor on the
//! other rows of `A`: a sentence is translated the same in any batch.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::Matrix;
use crate::flex::vector::LANES;

/// Vectors in a row of a panel: each element of `A` that is broadcast is multiplied twice.
const VECTORS: usize = 2;
/// Rows of the left factor in a task: a multiple of the rows in a tile (12, 8, 6 and 5), and few
/// enough to stay in a cache while task after task multiplies them by another panel.
const ROWS: usize = 240;
/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// A right factor, `[terms, columns]`, as panels of `[terms, width]`, one after the other. Columns
/// beyond the last are zeros.
pub(crate) struct Panels {
    values: Vec<f32>,
    terms: usize,
    columns: usize,
    /// Columns of a panel: [`VECTORS`] SIMD vectors.
    width: usize,
}

impl Panels {
    /// Copies a right factor into panels, on this core.
    ///
    /// It is called with a lock held. In a parallel loop this thread would help with other tasks
    /// while it waits, and one of those may ask for the same lock: a deadlock.
    pub(crate) fn new(right: Matrix<'_>) -> Self {
        let terms = right.shape.rows;
        let columns = right.shape.columns;
        let width = Arch::new().dispatch(Width);
        let mut values = vec![0.0; columns.next_multiple_of(width) * terms];
        for (index, panel) in values.chunks_exact_mut((width * terms).max(1)).enumerate() {
            for (term, row) in panel.chunks_exact_mut(width).enumerate() {
                for (value, column) in row.iter_mut().zip(index * width..columns) {
                    *value = right.at(term, column);
                }
            }
        }
        Self {
            values,
            terms,
            columns,
            width,
        }
    }

    /// The shape of the factor, `[terms, columns]`.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.terms, self.columns]
    }

    /// Returns `left right`, `[rows, columns]`, computed on all cores. The elements of a row of
    /// `left` must be neighbors.
    ///
    /// A task is one panel and at most [`ROWS`] rows; tasks of the same rows are numbered in
    /// succession, so that these rows are still in a cache.
    pub(crate) fn product(&self, left: Matrix<'_>) -> Vec<f32> {
        let Self { terms, columns, .. } = *self;
        let shape = (left.shape.columns, left.shape.column_stride);
        assert_eq!(shape, (terms, 1), "the left factor of a product by panels");
        let rows = left.shape.rows;
        let count = rows
            .checked_mul(columns)
            .expect("a product that memory can hold");
        let mut values = Vec::with_capacity(count);
        if terms == 0 {
            values.resize(count, 0.0);
            return values;
        }
        let copied = with_other_stride(left);
        let left = copied.as_ref().map_or(left, |(copied, stride)| {
            Matrix::strided(copied, rows, terms, *stride)
        });
        let result = SharedPointer(values.as_mut_ptr());
        let num_panels = self.values.len() / (self.width * terms);
        let task = |task: usize| {
            let first = task / num_panels * ROWS;
            self.multiply(
                left.some_rows(first, ROWS.min(rows - first)),
                task % num_panels,
                result.add(first * columns),
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

    /// Multiplies some rows by panel `index`, and writes these columns to the rows of the product
    /// that begin at `result` and have all columns.
    fn multiply(&self, left: Matrix<'_>, index: usize, result: *mut f32) {
        let Self {
            terms,
            columns,
            width,
            ..
        } = *self;
        let first = index * width;
        let panel = &self.values[index * width * terms..][..width * terms];
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
        // The last panel is wider than what is left of a row, so its columns go through a buffer.
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
            // SAFETY: The result has room for `columns - first` more elements in this row, and no
            // other thread writes to them.
            unsafe {
                sums.as_ptr()
                    .copy_to_nonoverlapping(start.wrapping_add(row * columns), columns - first);
            }
        }
    }
}

/// A copy of the matrix with a row stride that caches can bear, and that stride; `None` if the
/// matrix is fine as it is.
///
/// A tile reads the same column of several rows at once. If rows are a multiple of 4 KiB apart, all
/// these elements fall into one set of the first cache, which has fewer lines than a tile has rows,
/// and evict each other. One more vector between rows spreads them.
fn with_other_stride(left: Matrix<'_>) -> Option<(Vec<f32>, usize)> {
    /// Elements in 4 KiB, after which the sets of the first cache repeat.
    const REPEATS: usize = 1024;
    /// The least number of lines in a set.
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

/// The first element of a matrix that several threads write to, each its own rows and columns.
struct SharedPointer(*mut f32);

impl SharedPointer {
    /// The address of element `index`; a method, so that closures borrow the whole struct, which is
    /// `Sync`, and not the pointer in it.
    fn add(&self, index: usize) -> *mut f32 {
        self.0.wrapping_add(index)
    }
}

#[expect(
    unsafe_code,
    reason = "a pointer may go to other threads if what is done with it there may be done there"
)]
// SAFETY: Only [`Panels::product`] writes through it, no two threads to the same element.
unsafe impl Sync for SharedPointer {}

/// Returns the columns of a panel for the instructions that it is dispatched to.
struct Width;

impl WithSimd for Width {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        VECTORS * S::F32_LANES
    }
}

/// The part of a result that a panel is written to: as many columns as the panel has, for all rows
/// of the left factor. It need not be initialized.
#[derive(Clone, Copy)]
struct Output {
    /// The element of the first row and the first column of the panel.
    start: *mut f32,
    /// Elements from a row to the next.
    stride: usize,
}

/// Multiplies all rows by a panel, and writes the product to `output`.
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
        // Tiles as high as registers allow. 12 rows take 24 registers of sums, 2 of the panel and 1
        // of the broadcast element: 27 of 32. 6 rows take 12 + 2 + 1 = 15 of 16, which is also what
        // WebAssembly has on most machines. The rest is done by lower and lower tiles, each
        // compiled for its height: with a height that is not known to the compiler the sums would
        // be in memory.
        if S::REGISTER_COUNT >= 32 && cfg!(not(target_arch = "wasm32")) {
            first = self.tiles::<S, 12>(simd, first);
            first = self.tiles::<S, 8>(simd, first);
        } else {
            first = self.tiles::<S, 6>(simd, first);
            first = self.tiles::<S, 5>(simd, first);
        }
        first = self.tiles::<S, 4>(simd, first);
        first = self.tiles::<S, 3>(simd, first);
        first = self.tiles::<S, 2>(simd, first);
        self.tiles::<S, 1>(simd, first);
    }
}

impl Multiply<'_> {
    /// Multiplies tiles of `ROWS` rows from row `first` on, as long as there are as many, and
    /// returns the first row of the rest.
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(&self, simd: S, mut first: usize) -> usize {
        while first + ROWS <= self.left.shape.rows {
            self.tile::<S, ROWS>(simd, first);
            first += ROWS;
        }
        first
    }

    /// Multiplies one tile: rows `first..first + ROWS` by the panel.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize>(&self, simd: S, first: usize) {
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
            // SAFETY: From there on the row has as many elements as a row of the panel, and no
            // other thread writes to them.
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
    use crate::flex::tests::{assert_near, on_threads, pseudo_random};

    #[test]
    fn a_factor_in_panels_gives_the_product() {
        // Every height of tiles, and last panels that are full and that are not.
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
            let left = pseudo_random(rows * terms, 1);
            let right = pseudo_random(terms * columns, 2);
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
            let left = pseudo_random(300 * stride, 1);
            let right = pseudo_random(terms * 300, 2);
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
