//! Matrix products on GPUs.
//!
//! A product whose factors are long and whose result is small, as the gradient of a weight is, has
//! too few blocks for all multiprocessors: on an H200 512x25008 by 25008x512 took 0.7 ms, at 2 % of
//! what its matrix units do. So the sums are split ([`parts_of_sums`]): each part is a product of
//! its own, all of them in one launch, and a small kernel adds them up in their order.

#[cfg(feature = "cublaslt")]
mod cublas;
mod tune;

use burn::tensor::{DType, FloatDType, Tensor};

#[cfg(feature = "cublaslt")]
pub use self::cublas::ProductObservation;
#[cfg(feature = "cublaslt")]
use crate::gpu::operation;
use crate::gpu::operation::{Operand, queue_strided};
use crate::gpu::rows::sum_of_rows;

/// Rows and columns of the part of a result that a workgroup computes, roughly.
const BLOCK: usize = 128;
/// Blocks that keep a large GPU busy: about as many as it has multiprocessors.
const ENOUGH_BLOCKS: usize = 128;
/// The most parts of a sum. Lengths are padded to multiples of 8 on GPUs, so that a batch's number
/// of tokens can be divided by it.
const MAX_PARTS: usize = 8;
/// The fewest terms of a part of a sum.
const MIN_TERMS: usize = 512;

/// Returns `left right` with elements of `dtype`. Sums are of f32 where the factors are of 16 bits,
/// and f32 factors are rounded to tf32 where the device has matrix units for that alone.
///
/// A factor may be transposed, or another view whose rows or columns lie together.
pub(crate) fn product(left: Tensor<2>, right: Tensor<2>, dtype: FloatDType) -> Tensor<2> {
    let [rows, _] = left.dims();
    let [_, columns] = right.dims();
    batched(left, right, vec![rows, columns], dtype)
}

/// Returns `leftᵀ right` in f32: a sum over the rows of both.
///
/// # Shapes
/// - `left`: `[terms, rows]`; `right`: `[terms, columns]`, contiguous; output: `[rows, columns]`
pub(crate) fn product_of_columns(left: Tensor<2>, right: Tensor<2>) -> Tensor<2> {
    let [terms, rows] = left.dims();
    let [_, columns] = right.dims();
    let parts = if splits_sums_itself(&left) {
        1
    } else {
        parts_of_sums(rows, columns, terms)
    };
    if parts == 1 {
        return product(left.transpose(), right, FloatDType::F32);
    }
    let left: Tensor<3> = left.reshape([parts, terms / parts, rows]);
    let right: Tensor<3> = right.reshape([parts, terms / parts, columns]);
    let shape = vec![parts, rows, columns];
    let sums: Tensor<3> = batched(left.swap_dims(1, 2), right, shape, FloatDType::F32);
    sum_of_rows(sums.reshape([parts, rows * columns]).into(), parts)
        .tensor::<1>()
        .reshape([rows, columns])
}

/// Whether what computes products on the device of a tensor splits their sums where that is faster.
fn splits_sums_itself(tensor: &Tensor<2>) -> bool {
    #[cfg(feature = "cublaslt")]
    return cublas::is_used(&operation::client(&Operand::from(tensor.clone())));
    #[cfg(not(feature = "cublaslt"))]
    {
        let _ = tensor;
        false
    }
}

/// The number of parts that the sums of a product are split into.
fn parts_of_sums(rows: usize, columns: usize, terms: usize) -> usize {
    let blocks = rows.div_ceil(BLOCK) * columns.div_ceil(BLOCK);
    let mut parts = 1;
    while parts < MAX_PARTS
        && blocks * parts < ENOUGH_BLOCKS
        && terms.is_multiple_of(2 * parts)
        && terms / (2 * parts) >= MIN_TERMS
    {
        parts *= 2;
    }
    parts
}

fn batched<const D: usize>(
    left: Tensor<D>,
    right: Tensor<D>,
    shape: Vec<usize>,
    dtype: FloatDType,
) -> Tensor<D> {
    let written = [(shape, DType::from(dtype))];
    let inputs = [Operand::from(left), right.into()];
    let [output] = queue_strided("product", inputs, written, |_, [left, right], [output]| {
        #[cfg(feature = "cublaslt")]
        if cublas::launch(&left, &right, &output) {
            return;
        }
        tune::launch_fastest(left, right, output);
    });
    output.tensor()
}
