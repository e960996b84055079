//! One map as a picture: a cell for each weight, with the tokens beside the rows and above the columns.

use std::path::Path;

use polyglow_train::error::with_hint;
use polyglow_train::{Result, TrainError};

use super::{Map, PairAttention, Selection};
use crate::drawing::{Drawing, PictureFormat, Shape};

/// Width and height of a cell, and the size of letters, in pixels.
const CELL: i32 = 30;
const LETTERS: i32 = 15;
/// About the width of a letter.
const LETTER_WIDTH: usize = 9;
/// Between a label and its row or column.
const GAP: i32 = 6;
/// Right of the last column and below the last row.
const EDGE: i32 = 8;
/// The widest and highest picture, in pixels: a PNG takes four bytes of memory per pixel while it is painted.
const LARGEST: i32 = 16_384;

/// Draws a map with its tokens to `path`.
///
/// # Errors
/// The model has no such attention; the picture would be too large; the file cannot be written.
///
/// # Panics
/// There is no such layer or head: see [`Selection::check`].
pub fn draw(attention: &PairAttention, selection: Selection, format: PictureFormat, path: &Path) -> Result<()> {
    let map = attention.map(selection.kind);
    let num_layers = map.weights.len();
    if num_layers == 0 {
        return Err(TrainError::new("the model has no such layers"));
    }
    let longest = |tokens: &[String]| tokens.iter().map(|token| token.chars().count()).max().unwrap_or(0);
    let margin = |tokens: &[String]| (longest(tokens) * LETTER_WIDTH + 16) as i32;
    let (left, top) = (margin(&map.queries), margin(&map.keys));
    let (width, height) = (left + CELL * map.keys.len() as i32, top + CELL * map.queries.len() as i32);
    if width.max(height) > LARGEST {
        let error = TrainError::new(format!("a picture of {width} x {height} pixels is too large to draw"));
        return Err(with_hint(error, "an .html page shows sentences of any length"));
    }
    let weights = map.head(selection.layer.unwrap_or(num_layers) - 1, selection.head.map(|head| head - 1));
    let shapes = shapes(map, &weights, (left, top));
    Drawing { width: width + EDGE, height: height + EDGE, letters: LETTERS, shapes }.write(format, path)
}

/// The labels and cells of a map whose first cell has its corner at `left` and `top`.
fn shapes<'a>(map: &'a Map, weights: &[f32], (left, top): (i32, i32)) -> Vec<Shape<'a>> {
    let (x, y) = (|key: usize| left + CELL * key as i32, |query: usize| top + CELL * query as i32);
    let row = |(query, text)| Shape::RowLabel { x: left - GAP, y: y(query) + CELL / 2, text };
    let column = |(key, text)| Shape::ColumnLabel { x: x(key) + CELL / 2, y: top - GAP, text };
    let num_keys = map.keys.len();
    let cell = |(place, &weight)| Shape::Cell { x: x(place % num_keys), y: y(place / num_keys), side: CELL, weight };
    let rows = map.queries.iter().map(String::as_str).enumerate().map(row);
    let columns = map.keys.iter().map(String::as_str).enumerate().map(column);
    rows.chain(columns).chain(weights.iter().enumerate().map(cell)).collect()
}

#[cfg(test)]
mod tests {
    use polyglow_model::attention::AttentionKind;

    use super::*;

    #[test]
    fn every_weight_has_a_cell_and_every_token_a_label() {
        let tokens = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let map = |queries, keys, weights| Map { queries: tokens(queries), keys: tokens(keys), weights };
        let none = || map("", "", Vec::new());
        let cross = map("a", "<b> c", vec![vec![vec![0.25, 1.0]]]);
        let attention = PairAttention { encoder: none(), decoder: none(), cross };
        let directory = tempfile::tempdir().unwrap();
        let write = |kind, format, name: &str| {
            let path = directory.path().join(name);
            draw(&attention, Selection { kind, layer: None, head: None }, format, &path).map(|()| path)
        };
        let svg = std::fs::read_to_string(write(AttentionKind::Cross, PictureFormat::Svg, "map.svg").unwrap()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains(">&lt;b&gt;</text>") && svg.matches("<text").count() == 3);
        assert!(svg.contains("fill-opacity=\"0.250\"") && svg.matches("<rect").count() == 2, "{svg}");
        let png = image::open(write(AttentionKind::Cross, PictureFormat::Png, "map.png").unwrap()).unwrap().to_rgb8();
        // The margins have room for the longest tokens.
        assert_eq!(png.dimensions(), (25 + 2 * 30 + 8, 43 + 30 + 8));
        assert_eq!(png.get_pixel(25 + 45, 43 + 15).0, [0, 114, 178]);
        assert!(write(AttentionKind::Encoder, PictureFormat::Svg, "none.svg").is_err());
    }
}
