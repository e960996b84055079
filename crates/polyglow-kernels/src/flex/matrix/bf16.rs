//! Products `A B` of factors that are rounded to bf16, with sums in f32.
//!
//! `A` is `[rows, terms]` and `B` is `[terms, columns]`. Both are rounded and copied into tiles
//! first, in one pass over each; the innermost loop ([`instructions`]) then multiplies 32 rows by
//! 32 columns.
//!
//! # Layout
//! The instructions for bf16 (AMX `tdpbf16ps`, AVX512-BF16 `vdpbf16ps`) add the products of *pairs*
//! of terms: 32 bits hold two neighboring terms of one row or column. A [`Tile`] is 16 x 16 such
//! pairs, so 16 rows (or columns) by 32 terms, and 1 KiB, the size of an AMX register:
//! - of the left factor `[row][pair]`, as a matrix lies in memory;
//! - of the right factor `[pair][column]`, so that 16 columns of one pair are one vector, which is
//!   multiplied by one broadcast pair of a row.
//!
//! Rows of `A` and columns of `B` are both called *lines* here: apart from the order within a tile,
//! both factors are packed alike, `B` as the transposed matrix. A *strip* is 32 lines, two tiles
//! wide, with all their terms:
//!
//! ```text
//! strip 0: tile(lines 0..16, terms 0..32)  tile(lines 16..32, terms 0..32)
//!          tile(lines 0..16, terms 32..64) tile(lines 16..32, terms 32..64) ...
//! ```
//!
//! so the loop reads both strips from one end to the other. Lines and terms beyond the ends are
//! zeros.
//!
//! # Reproducibility
//! An element is the sum of its terms in an order that is fixed for a kind of instructions, so bits
//! depend on these, and not on threads.

mod instructions;

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::{Matrix, Shape};
use crate::flex::vector::{Kernel, vectorized};
use instructions::Instructions;

pub(crate) use instructions::has_bf16_products;

/// Lines in a tile, and pairs of terms: what an AMX register holds.
const TILE: usize = 16;
/// Lines in a strip, which is two tiles wide; also the terms in a tile. With two tiles of each
/// factor in registers, every tile that is loaded is multiplied twice.
const STRIP: usize = 2 * TILE;
/// The most strips of rows in a task. Of 2 048 terms, these and [`COLUMNS`] take 12 * 32 * 2 048 *
/// 2 bytes = 1.5 MiB, which stays in a second-level cache of 2 MiB.
const ROWS: usize = 4;
/// Strips of columns that all strips of rows of a task are multiplied by before the next ones.
const COLUMNS: usize = 8;

/// Pairs of terms in bf16, the first in the lower 16 bits: `[line][pair]` of a left factor,
/// `[pair][line]` of a right one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Tile([[u32; TILE]; TILE]);

/// The product of a strip of rows and a strip of columns, `[row][column]`.
#[repr(C, align(64))]
struct Sums([[f32; STRIP]; STRIP]);

/// Returns `left right` of rounded factors, `[rows, columns]`, computed on all cores.
pub(super) fn product(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let rows = left.shape.rows;
    let columns = right.shape.columns;
    let count = rows
        .checked_mul(columns)
        .expect("a product that memory can hold");
    let mut values = Vec::with_capacity(count);
    multiply(
        Instructions::best(),
        &mut values.spare_capacity_mut()[..count],
        left,
        right,
        |slot, sum| {
            slot.write(sum);
        },
    );
    #[expect(
        unsafe_code,
        reason = "zeroes that are overwritten cost as much as a small product"
    )]
    // SAFETY: `multiply` writes every element.
    unsafe {
        values.set_len(count);
    }
    values
}

/// Adds `left right` of rounded factors to a contiguous matrix, on all cores.
pub(super) fn add_product(sums: &mut [f32], left: Matrix<'_>, right: Matrix<'_>) {
    assert_eq!(
        sums.len(),
        left.shape.rows * right.shape.columns,
        "the result of a product"
    );
    multiply(Instructions::best(), sums, left, right, |slot, sum| {
        *slot += sum;
    });
}

/// Multiplies both factors, and calls `put` with each element of a contiguous result and its sum.
fn multiply<T: Send>(
    instructions: Instructions,
    result: &mut [T],
    left: Matrix<'_>,
    right: Matrix<'_>,
    put: impl Fn(&mut T, f32) + Sync,
) {
    assert_eq!(
        left.shape.columns, right.shape.rows,
        "the factors of a product"
    );
    let columns = right.shape.columns;
    if columns == 0 {
        return;
    }
    // As many strips of rows in a task as leave a task for each core.
    let strips = left
        .shape
        .rows
        .div_ceil(STRIP)
        .div_ceil(rayon::current_num_threads())
        .clamp(1, ROWS);
    let left = Packed::new(left, Order::Lines);
    let right = Packed::new(right.transposed(), Order::Pairs);
    result
        .par_chunks_mut(strips * STRIP * columns)
        .enumerate()
        .for_each(|(task, result)| {
            let session = instructions.begin();
            let mut sums = Sums([[0.0; STRIP]; STRIP]);
            let first = task * strips;
            // Some columns for all rows of the task, then the next: both stay in the cache.
            for block in (0..columns.div_ceil(STRIP)).step_by(COLUMNS) {
                for (row, lines) in result.chunks_mut(STRIP * columns).enumerate() {
                    for column in block..columns.div_ceil(STRIP).min(block + COLUMNS) {
                        session.multiply(left.strip(first + row), right.strip(column), &mut sums);
                        put_sums(lines, columns, column * STRIP, &sums, &put);
                    }
                }
            }
        });
}

/// Calls `put` for the part of a strip of rows of the result that begins at column `start`.
#[inline]
fn put_sums<T>(
    lines: &mut [T],
    columns: usize,
    start: usize,
    sums: &Sums,
    put: &impl Fn(&mut T, f32),
) {
    // The last strip is wider than what is left.
    let width = STRIP.min(columns - start);
    for (line, sums) in lines.chunks_exact_mut(columns).zip(&sums.0) {
        for (slot, sum) in line[start..][..width].iter_mut().zip(sums) {
            put(slot, *sum);
        }
    }
}

/// A rounded factor, as tiles in the order `[strip][32 terms][2]`.
struct Packed {
    tiles: Vec<Tile>,
    /// Tiles in a strip.
    len: usize,
}

impl Packed {
    /// Rounds and packs a factor whose rows are the lines and whose columns are the terms.
    fn new(matrix: Matrix<'_>, order: Order) -> Self {
        let Shape {
            rows,
            columns: terms,
            ..
        } = matrix.shape;
        let strips = rows.div_ceil(STRIP);
        let len = 2 * terms.div_ceil(STRIP);
        let mut tiles = Vec::with_capacity(strips * len);
        if len > 0 {
            let slots = tiles.spare_capacity_mut()[..strips * len]
                .par_chunks_mut(len)
                .enumerate();
            slots.for_each(|(strip, slots)| {
                vectorized(Fill {
                    slots,
                    matrix,
                    order,
                    first: strip * STRIP,
                });
            });
        }
        #[expect(
            unsafe_code,
            reason = "zeroes that are overwritten cost as much as the copy"
        )]
        // SAFETY: Each task writes every tile of its strip.
        unsafe {
            tiles.set_len(strips * len);
        }
        Self { tiles, len }
    }

    /// The tiles of strip `index`.
    fn strip(&self, index: usize) -> &[Tile] {
        &self.tiles[index * self.len..][..self.len]
    }
}

/// The order of the pairs in a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `[line][pair]`: the pairs of a line are neighbors, as in a left factor.
    Lines,
    /// `[pair][line]`: the lines of a pair are neighbors, as in a right factor.
    Pairs,
}

/// Writes the tiles of a strip: 32 lines from row `first` of `matrix` on.
struct Fill<'a> {
    /// The tiles of the strip, all of which are written.
    slots: &'a mut [MaybeUninit<Tile>],
    matrix: Matrix<'a>,
    order: Order,
    /// The first row of the strip.
    first: usize,
}

impl Kernel for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            slots,
            matrix,
            order,
            first,
        } = self;
        // Memory is read in its order, in which either terms or lines are neighbors. If the tile
        // needs the other order, it is transposed in registers afterwards.
        let memory_order = if matrix.shape.column_stride == 1 {
            Order::Lines
        } else {
            Order::Pairs
        };
        for (index, slot) in slots.iter_mut().enumerate() {
            let line = first + index % 2 * TILE;
            let term = index / 2 * STRIP;
            let tile = match memory_order {
                Order::Lines => line_by_line(matrix, line, term),
                Order::Pairs => pair_by_pair(matrix, line, term),
            };
            slot.write(if memory_order == order {
                tile
            } else {
                transposed(&tile)
            });
        }
    }
}

/// The tile `[line][pair]` of a matrix whose terms are neighbors; beyond the ends are zeros.
#[inline(always)]
fn line_by_line(matrix: Matrix<'_>, line: usize, term: usize) -> Tile {
    let Shape {
        rows,
        columns: terms,
        row_stride,
        ..
    } = matrix.shape;
    let mut tile = Tile([[0; TILE]; TILE]);
    let width = STRIP.min(terms - term);
    for (line, pairs) in (line..rows).zip(&mut tile.0) {
        let terms = padded::<STRIP>(&matrix.values[line * row_stride + term..][..width]);
        for (pair, two) in pairs.iter_mut().zip(terms.as_chunks::<2>().0) {
            *pair = rounded(two[0]) | rounded(two[1]) << 16;
        }
    }
    tile
}

/// The tile `[pair][line]` of a matrix whose lines are neighbors; beyond the ends are zeros.
#[inline(always)]
fn pair_by_pair(matrix: Matrix<'_>, line: usize, term: usize) -> Tile {
    let terms = matrix.shape.columns;
    let mut tile = Tile([[0; TILE]; TILE]);
    for (term, pairs) in (term..terms).step_by(2).zip(&mut tile.0) {
        let lower = term_of_lines(matrix, line, term);
        let upper = term_of_lines(matrix, line, term + 1);
        for ((pair, lower), upper) in pairs.iter_mut().zip(lower).zip(upper) {
            *pair = rounded(lower) | rounded(upper) << 16;
        }
    }
    tile
}

/// One term of the lines of a tile, whose lines are neighbors; beyond the ends are zeros.
#[inline(always)]
fn term_of_lines(matrix: Matrix<'_>, line: usize, term: usize) -> [f32; TILE] {
    let Shape {
        rows,
        columns: terms,
        column_stride,
        ..
    } = matrix.shape;
    let width = TILE.min(rows.saturating_sub(line));
    if term < terms && width > 0 {
        padded::<TILE>(&matrix.values[term * column_stride + line..][..width])
    } else {
        [0.0; TILE]
    }
}

/// The values, filled up with zeros to `N`.
#[inline(always)]
fn padded<const N: usize>(values: &[f32]) -> [f32; N] {
    values.try_into().unwrap_or_else(|_| {
        let mut padded = [0.0; N];
        padded[..values.len()].copy_from_slice(values);
        padded
    })
}

/// The bits of the nearest bf16 value, ties to even: bf16 is the upper half of the bits of f32, so
/// half of the lowest bit that stays is added before the lower half is cut off.
#[inline(always)]
fn rounded(value: f32) -> u32 {
    /// NaN has its own bits, since the addition could turn it into infinity.
    const NAN: u32 = 0x7fc0;
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { NAN } else { nearest }
}

/// The tile in the other [`Order`].
#[inline(always)]
fn transposed(tile: &Tile) -> Tile {
    let mut other = Tile([[0; TILE]; TILE]);
    for (row, pairs) in tile.0.iter().enumerate() {
        for (column, pair) in pairs.iter().enumerate() {
            other.0[column][row] = *pair;
        }
    }
    other
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use crate::flex::tests::{on_threads, pseudo_random};

    /// All instructions that this CPU has, the imitation among them. Writes to stderr, past the
    /// test harness, which ones are not tested.
    fn available() -> Vec<Instructions> {
        let available: Vec<Instructions> = Instructions::all().collect();
        assert!(available.contains(&Instructions::Imitated));
        #[cfg(target_arch = "x86_64")]
        for missing in [Instructions::Amx, Instructions::Avx512]
            .iter()
            .filter(|one| !available.contains(one))
        {
            let _ = writeln!(
                io::stderr(),
                "NOT TESTED on this machine: products in bf16 by {missing:?}"
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = writeln!(
            io::stderr(),
            "NOT TESTED on this machine: products in bf16 by instructions for them"
        );
        available
    }

    fn as_bf16(value: f32) -> f64 {
        f64::from(f32::from_bits(rounded(value) << 16))
    }

    /// Both factors as they lie in memory, and whether they are transposed.
    struct Case {
        sizes: [usize; 3],
        left: Vec<f32>,
        right: Vec<f32>,
        transposed: [bool; 2],
    }

    impl Case {
        fn new(sizes: [usize; 3], transposed: [bool; 2]) -> Self {
            let [rows, terms, columns] = sizes;
            Self {
                sizes,
                left: pseudo_random(rows * terms, 1),
                right: pseudo_random(terms * columns, 2),
                transposed,
            }
        }

        fn factors(&self) -> (Matrix<'_>, Matrix<'_>) {
            let [rows, terms, columns] = self.sizes;
            (
                factor(&self.left, [rows, terms], self.transposed[0]),
                factor(&self.right, [terms, columns], self.transposed[1]),
            )
        }

        /// The product of the rounded factors by its definition, in f64.
        fn expected(&self) -> Vec<f64> {
            let [rows, terms, columns] = self.sizes;
            let (left, right) = self.factors();
            let mut expected = Vec::new();
            for row in 0..rows {
                for column in 0..columns {
                    let products = (0..terms)
                        .map(|term| as_bf16(left.at(row, term)) * as_bf16(right.at(term, column)));
                    expected.push(products.sum());
                }
            }
            expected
        }
    }

    /// A factor of this shape, which lies transposed in memory or not.
    fn factor(values: &[f32], [rows, columns]: [usize; 2], transposed: bool) -> Matrix<'_> {
        if transposed {
            Matrix::new(values, columns, rows).transposed()
        } else {
            Matrix::new(values, rows, columns)
        }
    }

    #[test]
    fn every_way_to_multiply_gives_the_product_of_rounded_factors() {
        let available = available();
        for sizes in [
            [1, 1, 1],
            [5, 3, 7],
            [16, 32, 16],
            [33, 65, 47],
            [130, 64, 290],
            [2, 200, 31],
        ] {
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                let case = Case::new(sizes, transposed);
                let (left, right) = case.factors();
                for &instructions in &available {
                    let mut actual = vec![1.0; sizes[0] * sizes[2]];
                    multiply(instructions, &mut actual, left, right, |slot, sum| {
                        *slot += sum;
                    });
                    for (actual, expected) in actual.iter().zip(case.expected()) {
                        // Sums of at most 200 terms below 1, in f32.
                        let difference = (f64::from(*actual) - 1.0 - expected).abs();
                        assert!(
                            difference < 2e-5,
                            "{instructions:?} {sizes:?} {transposed:?}: {actual}, {expected}"
                        );
                    }
                }
                assert_eq!(product(left, right).len(), sizes[0] * sizes[2]);
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let available = available();
        let case = Case::new([300, 70, 90], [true, false]);
        let bits = |instructions: Instructions, threads| {
            on_threads(threads, || {
                let (left, right) = case.factors();
                let mut actual = vec![0.0f32; 300 * 90];
                multiply(instructions, &mut actual, left, right, |slot, sum| {
                    *slot += sum;
                });
                actual.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            })
        };
        for &instructions in &available {
            let expected = bits(instructions, 1);
            assert!(
                (2..4).all(|threads| bits(instructions, threads) == expected),
                "{instructions:?}"
            );
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let available = available();
        // A NaN whose bits would overflow, infinity, and a value that bf16 rounds to infinity.
        for (bad, is_nan) in [
            (f32::from_bits(0x7fff_ffff), true),
            (f32::NEG_INFINITY, false),
            (f32::MAX, false),
        ] {
            let left = [1.0, bad, 0.5, 2.0];
            let right = [1.0, 2.0];
            for &instructions in &available {
                let mut actual = [0.0; 2];
                let factors = (Matrix::new(&left, 2, 2), Matrix::new(&right, 2, 1));
                multiply(
                    instructions,
                    &mut actual,
                    factors.0,
                    factors.1,
                    |slot, sum| *slot += sum,
                );
                assert!(
                    actual[0].is_nan() == is_nan && !actual[0].is_finite(),
                    "{instructions:?}: {actual:?}"
                );
                assert_eq!(actual[1].to_bits(), 4.5f32.to_bits());
            }
        }
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(product(Matrix::new(&[], 0, 3), Matrix::new(&[0.0; 6], 3, 2)).is_empty());
        assert_eq!(
            product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 2)),
            [0.0; 4]
        );
    }
}
