//! Products of 8-bit integers on slices: rows are quantized, then rows times panels are divided
//! among cores, and each core calls the innermost loop ([`super::simd`]).
//!
//! Sums are exact in 32 bits, so the result has the same bits with any instruction set, any number
//! of threads and any division into tasks. With many rows a task is some rows and all panels, so
//! that each writes contiguous rows of the output. With few rows, as in a search, there are not
//! enough of them for all cores, so a task is all rows and some panels; then the weights, which are
//! most of the memory that is read, are read once in all.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::tensor::{Device, Tensor};
use rayon::prelude::*;

use super::{GROUP, Group, Int8Matrix, PANEL, simd};
use crate::flex::vector::{Kernel, LANES, vectorized};
use crate::flex::{Contiguous, close, from_values, open_untracked};

/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 20;
/// With at least this many rows, a task has all columns of some rows; with fewer, all rows of some
/// columns.
const MANY_ROWS: usize = 24;
/// The number of rows in a task is a multiple of this, which is a multiple of the rows in a tile of
/// any kernel (6, 4, 2 and 1).
const ROWS_STEP: usize = 24;
/// The most rows in a task: their bytes stay in the cache while panel after panel is read.
const MAX_ROWS: usize = 48;
/// Panels in a task if there are few rows.
const FEW_PANELS: usize = 16;

/// The treatment of negative outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negative {
    /// They stay.
    Kept,
    /// They become 0, as behind a ReLU.
    Zeroed,
}

/// `Some` if there are kernels for this device.
pub(super) fn has_kernels(device: &Device) -> Option<()> {
    (!cfg!(feature = "plain") && *device == Device::flex()).then_some(())
}

/// [`super::int8_linear`] and [`super::int8_linear_relu`] on flex without autodiff.
pub(super) fn linear(
    input: Tensor<2>,
    matrix: &Int8Matrix,
    bias: Option<Tensor<1>>,
    negative: Negative,
) -> Tensor<2> {
    let [rows, d_in] = input.dims();
    assert_eq!(matrix.d_in, d_in, "the input of a linear map");
    let bias = bias.map(|bias| Contiguous::new(open_untracked(bias)));
    let input = Rows::quantize(Contiguous::new(open_untracked(input)).slice(), d_in);
    let finish = Finish {
        bias: bias.as_ref().map(Contiguous::slice),
        negative,
    };
    close(from_values(
        product(&input, matrix, finish),
        [rows, matrix.d_out],
    ))
}

/// Quantized rows as unsigned bytes: `value = scale * (byte - 128)`, with `|byte - 128| <= 127`.
pub(super) struct Rows {
    /// `[rows, d_in]`, each row filled up to whole groups with 128, which stands for zero.
    pub(super) bytes: Vec<u8>,
    /// The scale of each row.
    pub(super) scales: Vec<f32>,
}

impl Rows {
    /// Quantizes each row with the scale that takes its largest absolute value to 127.
    pub(super) fn quantize(input: &[f32], d_in: usize) -> Self {
        let rows = input.len() / d_in.max(1);
        let mut quantized = Self {
            bytes: Vec::with_capacity(rows * d_in.next_multiple_of(GROUP)),
            scales: Vec::with_capacity(rows),
        };
        vectorized(Quantize {
            input,
            d_in,
            rows: &mut quantized,
        });
        quantized
    }

    /// The bytes in groups of four, as an instruction multiplies them.
    fn groups(&self) -> &[[u8; GROUP]] {
        self.bytes.as_chunks().0
    }
}

/// Quantizes all rows on this core.
struct Quantize<'a> {
    /// `[rows, d_in]`.
    input: &'a [f32],
    d_in: usize,
    /// Empty before; rows are appended.
    rows: &'a mut Rows,
}

impl Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// 1.5 * 2^23: adding it leaves no bits for a fraction, so the sum is rounded, and its
        /// lowest bits are the integer.
        const ROUND: f32 = 12_582_912.0;
        /// A row whose largest value is at most this counts as zero: 127 over it might be infinite.
        const LEAST: f32 = 1e-30;
        let Rows { bytes, scales } = self.rows;
        for input in self.input.chunks_exact(self.d_in.max(1)) {
            let largest = largest(input);
            scales.push(largest / 127.0);
            // One division for a row instead of one for each element.
            let inverse = if largest > LEAST {
                127.0 / largest
            } else {
                0.0
            };
            // The lowest byte is the integer in two's complement; plus 128 it is unsigned.
            let quantized = input
                .iter()
                .map(|value| ((value * inverse + ROUND).to_bits() as u8).wrapping_add(128));
            bytes.extend(quantized);
            bytes.resize(bytes.len().next_multiple_of(GROUP), 128);
        }
    }
}

/// The largest absolute value, or NaN if any value is NaN, so that the products become NaN too.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut largest = [0u32; LANES];
    // Without the sign, floats are ordered as their bits are, with NaN above infinity; so a maximum
    // of integers needs no test for NaN.
    for chunk in chunks {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = (*largest).max(value.abs().to_bits());
        }
    }
    f32::from_bits(
        largest
            .into_iter()
            .chain(rest.iter().map(|value| value.abs().to_bits()))
            .max()
            .unwrap_or(0),
    )
}

/// The last steps of an output: a bias and a ReLU on the scaled sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish<'a> {
    /// `[d_out]`.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) negative: Negative,
}

/// Some rows times some panels, on one core; `I` is the type of a group of a row.
pub(super) struct Task<'a, I = [u8; GROUP]> {
    /// The groups of the rows, one row after the other.
    pub(super) input: &'a [I],
    /// The scale of each row.
    pub(super) scales: &'a [f32],
    pub(super) matrix: &'a Int8Matrix,
    /// The panels of the matrix to multiply by.
    pub(super) panels: Range<usize>,
    pub(super) finish: Finish<'a>,
    /// The columns of these panels, all of which are written.
    pub(super) output: &'a mut [MaybeUninit<f32>],
}

/// Returns `input matrix`, scaled and finished, `[rows, d_out]`.
pub(super) fn product(input: &Rows, matrix: &Int8Matrix, finish: Finish<'_>) -> Vec<f32> {
    let rows = input.scales.len();
    let d_out = matrix.d_out;
    let count = rows
        .checked_mul(d_out)
        .expect("a product that memory can hold");
    let mut output = Vec::with_capacity(count);
    if count == 0 {
        return output;
    }
    let threads = rayon::current_num_threads();
    // Every element is written once by some task; zeros first would be another pass over memory.
    let result = &mut output.spare_capacity_mut()[..count];
    if rows * matrix.bytes.len() * size_of::<Group>() < PARALLEL || threads == 1 {
        run(
            input,
            0..rows,
            matrix,
            0..matrix.scales.len(),
            finish,
            result,
        );
    } else if rows >= MANY_ROWS {
        // Two tasks for each thread, so that others can help one that is late; whole tiles, so that
        // only the last task has a rest.
        let block = rows
            .div_ceil(2 * threads)
            .next_multiple_of(ROWS_STEP)
            .min(MAX_ROWS);
        result
            .par_chunks_mut(block * d_out)
            .enumerate()
            .for_each(|(index, output)| {
                let rows = index * block..rows.min((index + 1) * block);
                run(input, rows, matrix, 0..matrix.scales.len(), finish, output);
            });
    } else {
        by_columns(input, matrix, finish, result);
    }
    #[expect(
        unsafe_code,
        reason = "zeroes that are overwritten cost as much as a small product"
    )]
    // SAFETY: The vector has room for `count` elements, and the tasks divide them all among
    // themselves; each writes every element that it was given.
    unsafe {
        output.set_len(count);
    }
    output
}

/// Multiplies few rows: each task writes its columns to a contiguous block, which is then copied
/// into the rows of the output, because tasks cannot borrow interleaved columns of it.
fn by_columns(
    input: &Rows,
    matrix: &Int8Matrix,
    finish: Finish<'_>,
    output: &mut [MaybeUninit<f32>],
) {
    let rows = input.scales.len();
    let columns = FEW_PANELS * PANEL;
    let mut blocks = vec![MaybeUninit::new(0.0); output.len()];
    blocks
        .par_chunks_mut(rows * columns)
        .enumerate()
        .for_each(|(block, output)| {
            let panels = block * FEW_PANELS..matrix.scales.len().min((block + 1) * FEW_PANELS);
            run(input, 0..rows, matrix, panels, finish, output);
        });
    for (block, values) in blocks.chunks(rows * columns).enumerate() {
        // The last block may have fewer panels.
        let width = values.len() / rows;
        for (output, values) in output.chunks_mut(matrix.d_out).zip(values.chunks(width)) {
            output[block * columns..][..width].copy_from_slice(values);
        }
    }
}

/// Multiplies some rows by some panels, on this core.
fn run(
    input: &Rows,
    rows: Range<usize>,
    matrix: &Int8Matrix,
    panels: Range<usize>,
    finish: Finish<'_>,
    output: &mut [MaybeUninit<f32>],
) {
    let groups = matrix.groups();
    let scales = &input.scales[rows.clone()];
    let input = &input.groups()[rows.start * groups..rows.end * groups];
    simd::run(Task {
        input,
        scales,
        matrix,
        panels,
        finish,
        output,
    });
}

#[cfg(test)]
mod tests {
    use super::super::{Int8Weights, Layout};
    use super::*;

    fn matrix(d_in: usize, d_out: usize) -> (Int8Weights, Int8Matrix) {
        let values = (0..d_in * d_out)
            .map(|index| (index * 7919 % 255) as u8 as i8)
            .map(|value| value.max(-127));
        let weights = Int8Weights {
            values: values.collect(),
            scales: vec![1.0; d_out],
        };
        let matrix = Int8Matrix::new(&weights, [d_in, d_out], Layout::InOut);
        (weights, matrix)
    }

    /// Bytes of every size, the extremes among them.
    fn rows(rows: usize, d_in: usize) -> Rows {
        let input: Vec<f32> = (0..rows * d_in)
            .map(|index| (index * 31 % 255) as f32 - 127.0)
            .collect();
        let mut rows = Rows::quantize(&input, d_in);
        rows.scales.fill(1.0);
        rows
    }

    #[test]
    fn all_instructions_give_the_exact_sums_of_integers() {
        for (count, d_in, d_out) in [
            (1, 1, 1),
            (2, 3, 5),
            (6, 4, 16),
            (7, 33, 17),
            (13, 130, 65),
            (5, 512, 81),
        ] {
            let (weights, matrix) = matrix(d_in, d_out);
            let rows = rows(count, d_in);
            let mut expected = Vec::new();
            for row in rows.bytes.chunks(d_in.next_multiple_of(GROUP)) {
                for column in 0..d_out {
                    let values = row
                        .iter()
                        .zip(weights.values[column..].iter().step_by(d_out));
                    let sum: i32 = values
                        .map(|(value, weight)| (i32::from(*value) - 128) * i32::from(*weight))
                        .sum();
                    assert!(sum.abs() < 1 << 24, "a sum that `f32` holds exactly");
                    expected.push(sum as f32);
                }
            }
            for (index, run) in simd::all().into_iter().enumerate() {
                let mut output = vec![MaybeUninit::new(f32::NAN); count * d_out];
                let finish = Finish {
                    bias: None,
                    negative: Negative::Kept,
                };
                let input = rows.groups();
                let scales = &*rows.scales;
                let panels = 0..matrix.scales.len();
                run(Task {
                    input,
                    scales,
                    matrix: &matrix,
                    panels,
                    finish,
                    output: &mut output,
                });
                #[expect(unsafe_code, reason = "the output is read")]
                // SAFETY: All of it was initialized above.
                let output: Vec<f32> = output
                    .iter()
                    .map(|value| unsafe { value.assume_init() })
                    .collect();
                assert_eq!(
                    output, expected,
                    "instructions {index}, {count} x {d_in} x {d_out}"
                );
            }
        }
    }

    #[test]
    fn a_row_comes_out_the_same_alone_in_a_beam_and_in_a_batch() {
        let (_, matrix) = matrix(40, 2000);
        let input: Vec<f32> = (0..200 * 40)
            .map(|index| (index as f32 * 0.37).sin())
            .collect();
        let finish = Finish {
            bias: None,
            negative: Negative::Kept,
        };
        let product = |rows: Range<usize>| {
            let input = &input[rows.start * 40..rows.end * 40];
            product(&Rows::quantize(input, 40), &matrix, finish)
        };
        let all = product(0..200);
        for rows in [0..1, 3..4, 5..25, 100..195] {
            assert_eq!(
                product(rows.clone()),
                all[rows.start * 2000..rows.end * 2000],
                "{rows:?}"
            );
        }
    }
}
