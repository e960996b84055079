//! Tables of sines and cosines, which other formats store as weights.

use super::array::Array;

/// Polyglow's positions as a table: `sin(p / 10000^(2i / d_model))` at column `2i` and the cosine of
/// the same angle at column `2i + 1`, for positions `p` from 0.
pub(crate) fn sinusoids(rows: usize, d_model: usize) -> Array {
    let mut values = Vec::with_capacity(rows * d_model);
    for position in 0..rows {
        for column in 0..d_model {
            let exponent = 2.0 * (column / 2) as f64 / d_model as f64;
            let angle = position as f64 / 10_000f64.powf(exponent);
            let value = if column.is_multiple_of(2) {
                angle.sin()
            } else {
                angle.cos()
            };
            values.push(value as f32);
        }
    }
    Array::matrix(values, [rows, d_model])
}

/// Whether a table is that of [`sinusoids`], but for rounding.
pub(crate) fn are_sinusoids(table: &Array, tolerance: f32) -> bool {
    let expected = sinusoids(table.height(), table.width());
    let mut pairs = table.values.iter().zip(&expected.values);
    pairs.all(|(value, expected)| (value - expected).abs() <= tolerance)
}

/// The table that CTranslate2 adds where a model has none: as in tensor2tensor, all sines before all
/// cosines, in wavelengths from `2π` to `10000 * 2π`, with positions counted from 1. The width must
/// be even and more than 2.
pub(crate) fn sinusoids_of_tensor2tensor(rows: usize, d_model: usize) -> Array {
    let half = d_model / 2;
    let mut values = Vec::with_capacity(rows * d_model);
    for position in 1..=rows {
        for column in 0..d_model {
            let exponent = (column % half) as f64 / (half - 1) as f64;
            let angle = position as f64 / 10_000f64.powf(exponent);
            let value = if column < half {
                angle.sin()
            } else {
                angle.cos()
            };
            values.push(value as f32);
        }
    }
    Array::matrix(values, [rows, d_model])
}
