//! Products of f16 values as GPUs compute them, imitated in f32: both factors are rounded to f16,
//! products are added in f32, and each result is rounded to f16.
//!
//! It serves to try out training in f16 without a GPU, and is slower than f32: both factors are
//! copied.

use burn::tensor::f16;
use rayon::prelude::*;

use super::Matrix;
use crate::Factors;

/// Returns `left right` of rounded factors, rounded, computed on all cores.
pub(super) fn product(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let left_values = all_rounded(left.values);
    let right_values = all_rounded(right.values);
    let left = Matrix {
        values: &left_values,
        ..left
    };
    let right = Matrix {
        values: &right_values,
        ..right
    };
    let mut product = super::product(left, right, Factors::F32);
    product
        .par_iter_mut()
        .for_each(|value| *value = rounded(*value));
    product
}

/// Adds [`product`] to a contiguous matrix: on GPUs the product is rounded before it is added, too.
pub(super) fn add_product(sums: &mut [f32], left: Matrix<'_>, right: Matrix<'_>) {
    sums.iter_mut()
        .zip(product(left, right))
        .for_each(|(sum, value)| *sum += value);
}

/// The whole slice, so that a matrix keeps its strides.
fn all_rounded(values: &[f32]) -> Vec<f32> {
    values.par_iter().copied().map(rounded).collect()
}

/// The nearest value of f16.
fn rounded(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}
