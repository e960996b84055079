//! Matrix products on slices: `C = A B`, `C += A B` and `C = scale A B`.
//!
//! With `A` of `[rows, terms]` and `B` of `[terms, columns]`, element `(i, j)` of the product is
//! the sum over `terms` of `A[i, k] B[k, j]`. There are four ways to compute it:
//! - in f32 by the crate `gemm`, with which Burn's backend flex multiplies as well: this file;
//! - with both factors rounded to bf16 ([`bf16`]), or as GPUs do it with f16 ([`mod@f16`]);
//! - with a right factor that was copied once and is multiplied by often ([`panels`]).
//!
//! # Layout
//! A [`Matrix`] is a view: a slice, a number of rows and columns, and the distance between rows and
//! between columns in it. So a transposed factor is a view with the strides swapped, a head of an
//! attention is a view of some columns of a projection, and none of them is copied before a
//! product; `gemm` packs blocks of both factors into its own order anyway.
//!
//! # Reproducibility
//! `gemm` divides a product among threads by rows and columns of the result, and adds the terms of
//! an element in a fixed order, so its bits do not depend on the number of threads; tests of the
//! operations check that. [`product`] and [`add_product`] use all cores; [`product_into`] is called
//! inside of a task that has one core, while other tasks have the others.

mod bf16;
mod f16;
mod panels;

use gemm::Parallelism;

pub(crate) use bf16::has_bf16_products;
pub(crate) use panels::Panels;

use crate::Factors;

/// A view of a matrix in a slice: element `(row, column)` is at
/// `row * row_stride + column * column_stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    values: &'a [f32],
    shape: Shape,
}

/// A [`Matrix`] to write to.
#[derive(Debug)]
pub(crate) struct MatrixMut<'a> {
    values: &'a mut [f32],
    shape: Shape,
}

/// The size of a matrix, and the distances between its rows and between its columns, in elements.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Shape {
    /// Rows of neighboring elements, which begin `row_stride` apart.
    fn row_major(rows: usize, columns: usize, row_stride: usize) -> Self {
        Self {
            rows,
            columns,
            row_stride,
            column_stride: 1,
        }
    }

    /// Panics if an element lies outside of a slice of `len`, or if rows overlap. Every matrix is
    /// checked when it is made, because `gemm` takes pointers and checks nothing.
    fn check(&self, len: usize) {
        if self.rows > 0 && self.columns > 0 {
            assert!(
                self.row_stride >= self.columns,
                "the rows of {self:?} overlap"
            );
            let start = (self.rows - 1).checked_mul(self.row_stride);
            let last = start.and_then(|start| start.checked_add(self.columns - 1));
            assert!(
                last.is_some_and(|last| last < len),
                "a matrix of {self:?} does not fit into {len} elements"
            );
        }
    }
}

impl<'a> Matrix<'a> {
    /// A matrix of contiguous rows.
    pub(crate) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A matrix of rows that begin `row_stride` apart.
    pub(crate) fn strided(
        values: &'a [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        let shape = Shape::row_major(rows, columns, row_stride);
        shape.check(values.len());
        Self { values, shape }
    }

    /// The matrix of the first `rows` rows.
    pub(crate) fn first_rows(self, rows: usize) -> Self {
        self.some_rows(0, rows)
    }

    /// The matrix of `rows` rows from `first` on.
    fn some_rows(self, first: usize, rows: usize) -> Self {
        debug_assert!(first + rows <= self.shape.rows);
        Self {
            values: &self.values[first * self.shape.row_stride..],
            shape: Shape { rows, ..self.shape },
        }
    }

    /// One element.
    fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.shape.row_stride + column * self.shape.column_stride]
    }

    /// One row, whose elements must be neighbors: the matrix is not transposed.
    fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.shape.row_stride..][..self.shape.columns]
    }

    /// The transposed matrix: a view with rows and columns swapped, without a copy.
    pub(crate) fn transposed(self) -> Self {
        let Shape {
            rows,
            columns,
            row_stride,
            column_stride,
        } = self.shape;
        let shape = Shape {
            rows: columns,
            columns: rows,
            row_stride: column_stride,
            column_stride: row_stride,
        };
        Self { shape, ..self }
    }
}

impl<'a> MatrixMut<'a> {
    /// A matrix of rows that begin `row_stride` apart, to write to.
    pub(crate) fn strided(
        values: &'a mut [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        let shape = Shape::row_major(rows, columns, row_stride);
        shape.check(values.len());
        Self { values, shape }
    }
}

/// Whether a product overwrites its result or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Overwrite,
    Accumulate,
}

/// Returns `left right`, `[rows, columns]`, computed on all cores.
pub(crate) fn product(left: Matrix<'_>, right: Matrix<'_>, factors: Factors) -> Vec<f32> {
    match factors {
        Factors::F32 => {}
        Factors::Bf16 => return bf16::product(left, right),
        Factors::F16 => return f16::product(left, right),
    }
    let rows = left.shape.rows;
    let columns = right.shape.columns;
    let count = rows
        .checked_mul(columns)
        .expect("a product that memory can hold");
    let shape = Shape::row_major(rows, columns, columns);
    // For products with a vector, and for sums of one or two terms, `gemm` has other loops, which
    // read the old values even if they are overwritten; so these must be initialized.
    if rows <= 1 || columns <= 1 || left.shape.columns <= 2 {
        let mut values = vec![0.0; count];
        product_into(
            MatrixMut {
                values: &mut values,
                shape,
            },
            left,
            right,
            1.0,
            Store::Overwrite,
        );
        return values;
    }
    let mut values = Vec::with_capacity(count);
    #[expect(
        unsafe_code,
        reason = "zeroes that are overwritten cost as much as a small product"
    )]
    // SAFETY: The vector has room for `count` elements; a product of matrices reads none of them
    // and, as it has several terms, writes every one of them.
    unsafe {
        multiply(
            values.as_mut_ptr(),
            shape,
            left,
            right,
            1.0,
            Store::Overwrite,
            Parallelism::Rayon(0),
        );
        values.set_len(count);
    }
    values
}

/// Adds `left right` to a contiguous matrix of `[rows, columns]`, on all cores.
pub(crate) fn add_product(sums: &mut [f32], left: Matrix<'_>, right: Matrix<'_>, factors: Factors) {
    match factors {
        Factors::F32 => {}
        Factors::Bf16 => return bf16::add_product(sums, left, right),
        Factors::F16 => return f16::add_product(sums, left, right),
    }
    let rows = left.shape.rows;
    let columns = right.shape.columns;
    let MatrixMut { values, shape } = MatrixMut::strided(sums, rows, columns, columns);
    #[expect(unsafe_code, reason = "the crate `gemm` takes pointers")]
    // SAFETY: Every element of the result lies in `values`, as was checked when it was made, and is
    // initialized.
    unsafe {
        multiply(
            values.as_mut_ptr(),
            shape,
            left,
            right,
            1.0,
            Store::Accumulate,
            Parallelism::Rayon(0),
        );
    }
}

/// Writes `scale left right` to a part of a slice, or adds it there, on this core.
pub(crate) fn product_into(
    result: MatrixMut<'_>,
    left: Matrix<'_>,
    right: Matrix<'_>,
    scale: f32,
    store: Store,
) {
    let MatrixMut { values, shape } = result;
    assert_eq!(
        (shape.rows, shape.columns),
        (left.shape.rows, right.shape.columns),
        "the result of a product"
    );
    #[expect(unsafe_code, reason = "the crate `gemm` takes pointers")]
    // SAFETY: Every element of the result lies in `values`, as was checked when it was made, and is
    // initialized.
    unsafe {
        multiply(
            values.as_mut_ptr(),
            shape,
            left,
            right,
            scale,
            store,
            Parallelism::None,
        );
    }
}

/// The most rows of a transposed left factor that are multiplied together.
///
/// `gemm` packs these rows first, and the copy has to stay in a cache. With a gradient of 512 rows
/// and 9 708 columns packed whole, the product with 128 columns takes 1.8 times as long on two
/// cores with AVX2.
const ROWS_COPIED: usize = 768;

/// Calls `gemm`, for a transposed left factor once for each [`ROWS_COPIED`] rows.
///
/// # Safety
/// `result` is valid for writes at every element of `shape`, which has the rows of `left` and the
/// columns of `right`; and for reads there if the old values are added to. Elements do not overlap.
#[expect(unsafe_code, reason = "the crate `gemm` takes pointers")]
unsafe fn multiply(
    result: *mut f32,
    shape: Shape,
    left: Matrix<'_>,
    right: Matrix<'_>,
    scale: f32,
    store: Store,
    parallelism: Parallelism,
) {
    assert_eq!(
        left.shape.columns, right.shape.rows,
        "the factors of a product"
    );
    let rows = shape.rows;
    let is_copied = left.shape.column_stride != 1 && left.shape.columns > 0;
    let parts = if is_copied {
        rows.div_ceil(ROWS_COPIED).max(1)
    } else {
        1
    };
    // Parts of about the same size, and not whole ones and a rest: a rest of a single row would be
    // multiplied by the loop that reads old values.
    for part in 0..parts {
        let first = part * rows / parts;
        let end = (part + 1) * rows / parts;
        let left = left.some_rows(first, end - first);
        // SAFETY: The caller vouches for the result, of which these are some rows; the factors were
        // checked against their slices when they were made.
        unsafe {
            gemm::gemm(
                left.shape.rows,
                shape.columns,
                left.shape.columns,
                result.add(first * shape.row_stride),
                // `gemm` takes the stride of columns first.
                shape.column_stride as isize,
                shape.row_stride as isize,
                store == Store::Accumulate,
                left.values.as_ptr(),
                left.shape.column_stride as isize,
                left.shape.row_stride as isize,
                right.values.as_ptr(),
                right.shape.column_stride as isize,
                right.shape.row_stride as isize,
                // result = 1.0 * old + scale * left right, nothing conjugated.
                1.0,
                scale,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        let left: Vec<f32> = (0..6).map(|value| value as f32).collect();
        let right: Vec<f32> = (0..12).map(|value| value as f32 - 4.0).collect();
        // [[0, 1, 2], [3, 4, 5]] times a matrix of 3 rows and 4 columns.
        let expected = [8.0, 11.0, 14.0, 17.0, 8.0, 20.0, 32.0, 44.0];
        let a = Matrix::new(&left, 2, 3);
        let b = Matrix::new(&right, 3, 4);
        assert_eq!(product(a, b, Factors::F32), expected);
        let transposed: Vec<f32> = (0..4)
            .flat_map(|column| (0..3).map(move |row| (row * 4 + column) as f32 - 4.0))
            .collect();
        assert_eq!(
            product(a, Matrix::new(&transposed, 4, 3).transposed(), Factors::F32),
            expected
        );
        let mut result = [1.0; 12];
        product_into(
            MatrixMut::strided(&mut result, 2, 4, 6),
            a,
            b,
            2.0,
            Store::Accumulate,
        );
        assert_eq!(result[..6], [17.0, 23.0, 29.0, 35.0, 1.0, 1.0]);
        assert_eq!(result[6..10], [17.0, 41.0, 65.0, 89.0]);
        let mut sums = [1.0; 8];
        add_product(&mut sums, a, b, Factors::F32);
        assert_eq!(sums[..], [9.0, 12.0, 15.0, 18.0, 9.0, 21.0, 33.0, 45.0]);
        // A transposed left factor in parts, whole and with a rest, and without terms.
        for (rows, terms) in [(769, 3), (1_537, 3), (1_000, 0)] {
            // Element `(row, term)` is `5 row + term`.
            let values: Vec<f32> = (0..rows * terms)
                .map(|index| (index % rows * 5 + index / rows) as f32)
                .collect();
            let left = Matrix::new(&values, terms, rows).transposed();
            let right = Matrix::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..2 * terms], terms, 2);
            let mut expected = Vec::new();
            for row in 0..rows {
                for column in 0..2 {
                    let products = (0..terms)
                        .map(|term| (row * 5 + term) as f32 * (2 * term + column + 1) as f32);
                    expected.push(products.sum::<f32>());
                }
            }
            let mut sums = vec![1.0; 2 * rows];
            add_product(&mut sums, left, right, Factors::F32);
            assert!(
                sums.iter()
                    .zip(&expected)
                    .all(|(sum, product)| (sum - product - 1.0).abs() < 1e-2),
                "{rows}"
            );
            let actual = product(left, right, Factors::F32);
            assert!(
                actual
                    .iter()
                    .zip(&expected)
                    .all(|(actual, product)| (actual - product).abs() < 1e-2),
                "{rows}"
            );
        }
        assert_eq!(
            product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 2), Factors::F32),
            [0.0; 4]
        );
    }

    #[test]
    #[should_panic(expected = "does not fit into 5 elements")]
    fn a_matrix_beyond_its_slice_is_refused() {
        Matrix::new(&[0.0; 5], 2, 3);
    }
}
