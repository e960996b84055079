//! Products as GPUs make them of f16, imitated in f32: factors and results are rounded.

use burn::tensor::f16;
use rayon::prelude::*;

use super::Matrix;
use crate::Factors;

/// `left right`, on all cores.
pub(super) fn product(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let factors = [left.values, right.values]
        .map(|values| values.par_iter().copied().map(rounded).collect::<Vec<_>>());
    let [left, right] = [(left, &factors[0]), (right, &factors[1])]
        .map(|(matrix, values)| Matrix { values, ..matrix });
    let mut product = super::product(left, right, Factors::F32);
    product
        .par_iter_mut()
        .for_each(|value| *value = rounded(*value));
    product
}

/// Adds `left right` to a contiguous matrix, on all cores.
pub(super) fn add_product(sums: &mut [f32], left: Matrix<'_>, right: Matrix<'_>) {
    sums.iter_mut()
        .zip(product(left, right))
        .for_each(|(sum, value)| *sum += value);
}

fn rounded(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}
