//! Products of factors in bf16, with sums in f32.
//!
//! Both factors are rounded and copied into tiles first, in a pass over each; the innermost loop
//! then goes through the tiles of 32 rows and 32 columns. An element is the sum of its terms in an
//! order that is fixed for a kind of instructions, so that bits depend on these, and not on
//! threads.

mod instructions;

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::{Matrix, Shape};
use crate::flex::vector::{Kernel, vectorized};
use instructions::Instructions;

pub(crate) use instructions::has_bf16_products;

/// Lines (rows of the left factor, columns of the right one) in a tile, and pairs of terms.
const TILE: usize = 16;
/// Lines in a strip, which is two tiles wide, and terms in a tile.
const STRIP: usize = 2 * TILE;
/// Strips of rows in a task, at most, and of columns that they go through together: what both hold
/// of up to 2 048 terms stays in a cache of 2 MiB.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// Pairs of terms, the first in the lower half: `[line][pair]` of a left factor, `[pair][line]` of
/// a right one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Tile([[u32; TILE]; TILE]);

/// The sums of a strip of rows and one of columns.
#[repr(C, align(64))]
struct Sums([[f32; STRIP]; STRIP]);

/// `left right` with both rounded, on all cores.
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

/// Adds `left right` with both rounded to a contiguous matrix, on all cores.
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

/// Calls `put` once for each element of a contiguous result.
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
    // Enough tasks for all cores.
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
            for block in (0..columns.div_ceil(STRIP)).step_by(COLUMNS) {
                for (row, lines) in result.chunks_mut(STRIP * columns).enumerate() {
                    for column in block..columns.div_ceil(STRIP).min(block + COLUMNS) {
                        session.multiply(left.strip(first + row), right.strip(column), &mut sums);
                        let start = column * STRIP;
                        let width = STRIP.min(columns - start);
                        for (line, sums) in lines.chunks_exact_mut(columns).zip(&sums.0) {
                            line[start..][..width]
                                .iter_mut()
                                .zip(sums)
                                .for_each(|(slot, sum)| put(slot, *sum));
                        }
                    }
                }
            }
        });
}

/// A rounded factor: strips of two lines of tiles, `[strip][32 terms][2]`.
struct Packed {
    tiles: Vec<Tile>,
    /// Tiles in a strip.
    len: usize,
}

impl Packed {
    /// The rows of `matrix`, whose columns are the terms.
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

    fn strip(&self, number: usize) -> &[Tile] {
        &self.tiles[number * self.len..][..self.len]
    }
}

/// What a tile holds side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The pairs of a line: a left factor.
    Lines,
    /// A pair of each line: a right factor.
    Pairs,
}

/// Writes the tiles of a strip, which are of 32 rows of `matrix` from `first` on.
struct Fill<'a> {
    slots: &'a mut [MaybeUninit<Tile>],
    matrix: Matrix<'a>,
    order: Order,
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
        // Memory is read in its order.
        let found = if matrix.shape.column_stride == 1 {
            Order::Lines
        } else {
            Order::Pairs
        };
        for (number, slot) in slots.iter_mut().enumerate() {
            let line = first + number % 2 * TILE;
            let term = number / 2 * STRIP;
            let tile = match found {
                Order::Lines => line_by_line(matrix, line, term),
                Order::Pairs => pair_by_pair(matrix, line, term),
            };
            slot.write(if found == order {
                tile
            } else {
                transposed(&tile)
            });
        }
    }
}

/// Of lines whose terms are contiguous, as `[line][pair]`; beyond the ends are zeros.
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
    for (number, pairs) in (line..rows).zip(&mut tile.0) {
        let terms = padded::<STRIP>(&matrix.values[number * row_stride + term..][..width]);
        for (pair, two) in pairs.iter_mut().zip(terms.as_chunks::<2>().0) {
            *pair = rounded(two[0]) | rounded(two[1]) << 16;
        }
    }
    tile
}

/// Of lines that lie side by side, as `[pair][line]`; beyond the ends are zeros.
#[inline(always)]
fn pair_by_pair(matrix: Matrix<'_>, line: usize, term: usize) -> Tile {
    let Shape {
        rows,
        columns: terms,
        column_stride,
        ..
    } = matrix.shape;
    let mut tile = Tile([[0; TILE]; TILE]);
    let width = TILE.min(rows.saturating_sub(line));
    let of_lines = |number: usize| {
        if number < terms && width > 0 {
            padded::<TILE>(&matrix.values[number * column_stride + line..][..width])
        } else {
            [0.0; TILE]
        }
    };
    for (number, pairs) in (term..terms).step_by(2).zip(&mut tile.0) {
        let lower = of_lines(number);
        let upper = of_lines(number + 1);
        for ((pair, lower), upper) in pairs.iter_mut().zip(lower).zip(upper) {
            *pair = rounded(lower) | rounded(upper) << 16;
        }
    }
    tile
}

#[inline(always)]
fn padded<const N: usize>(values: &[f32]) -> [f32; N] {
    values.try_into().unwrap_or_else(|_| {
        let mut padded = [0.0; N];
        padded[..values.len()].copy_from_slice(values);
        padded
    })
}

/// The nearest number in bf16, the even one of two as near: the upper half of the bits of an f32.
#[inline(always)]
fn rounded(value: f32) -> u32 {
    /// Not a number, which rounding could turn into infinity.
    const NAN: u32 = 0x7fc0;
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { NAN } else { nearest }
}

#[inline(always)]
fn transposed(tile: &Tile) -> Tile {
    let mut other = Tile([[0; TILE]; TILE]);
    for (row, numbers) in tile.0.iter().enumerate() {
        for (column, number) in numbers.iter().enumerate() {
            other.0[column][row] = *number;
        }
    }
    other
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use crate::flex::tests::on_threads;

    /// All instructions that this CPU has, the imitation among them. Says aloud, past the test
    /// harness, which are not tested.
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

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|place| ((place * 7 + seed) as f64 * 0.618_034).fract() as f32 * 2.0 - 1.0)
            .collect()
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
                left: numbers(rows * terms, 1),
                right: numbers(terms * columns, 2),
                transposed,
            }
        }

        fn factors(&self) -> (Matrix<'_>, Matrix<'_>) {
            let of = |values, rows, columns, transposed| {
                if transposed {
                    Matrix::new(values, columns, rows).transposed()
                } else {
                    Matrix::new(values, rows, columns)
                }
            };
            let [rows, terms, columns] = self.sizes;
            (
                of(&self.left, rows, terms, self.transposed[0]),
                of(&self.right, terms, columns, self.transposed[1]),
            )
        }

        /// By the definition, of the rounded factors.
        fn expected(&self) -> Vec<f64> {
            let [rows, terms, columns] = self.sizes;
            let at = |values: &[f32], (row, column), [height, width]: [usize; 2], transposed| {
                as_bf16(
                    values[if transposed {
                        column * height + row
                    } else {
                        row * width + column
                    }],
                )
            };
            let element = |row, column| {
                let left = |term| at(&self.left, (row, term), [rows, terms], self.transposed[0]);
                let right = |term| {
                    at(
                        &self.right,
                        (term, column),
                        [terms, columns],
                        self.transposed[1],
                    )
                };
                (0..terms).map(|term| left(term) * right(term)).sum()
            };
            (0..rows * columns)
                .map(|place| element(place / columns, place % columns))
                .collect()
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
        // A NaN whose bits would overflow, and a number that is nearest to infinity.
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
