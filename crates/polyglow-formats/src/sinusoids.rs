//! Tables of sines and cosines, as other formats write them out.

use super::array::Array;

/// `sin(p / 10000^(2i / d_model))` at even and the cosine at odd places, as our positions are.
pub(crate) fn sinusoids(rows: usize, d_model: usize) -> Array {
    let value = |position: usize, place: usize| {
        let angle = position as f64 / 10_000f64.powf(2.0 * (place / 2) as f64 / d_model as f64);
        if place.is_multiple_of(2) {
            angle.sin() as f32
        } else {
            angle.cos() as f32
        }
    };
    let values = (0..rows)
        .flat_map(|position| (0..d_model).map(move |place| value(position, place)))
        .collect();
    Array::matrix(values, [rows, d_model])
}

/// Whether a table is that of [`sinusoids`], but for rounding.
pub(crate) fn are_sinusoids(table: &Array, tolerance: f32) -> bool {
    let expected = sinusoids(table.height(), table.width());
    table
        .values
        .iter()
        .zip(&expected.values)
        .all(|(value, expected)| (value - expected).abs() <= tolerance)
}

/// The table that CTranslate2 adds where a model has none: as tensor2tensor's, sines before
/// cosines, in wavelengths from `2π` to `10000 * 2π`, with positions counted from 1. The width must
/// be even and more than 2.
pub(crate) fn sinusoids_of_tensor2tensor(rows: usize, d_model: usize) -> Array {
    let half = d_model / 2;
    let value = |position: usize, column: usize| {
        let step = (column % half) as f64 / (half - 1) as f64;
        let angle = (position + 1) as f64 / 10_000f64.powf(step);
        if column < half {
            angle.sin() as f32
        } else {
            angle.cos() as f32
        }
    };
    let row = |position: usize| (0..d_model).map(move |column| value(position, column));
    Array::matrix((0..rows).flat_map(row).collect(), [rows, d_model])
}
