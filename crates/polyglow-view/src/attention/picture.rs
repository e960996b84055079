//! One map as a picture: a cell for each weight, with the tokens beside the rows and above the
//! columns.

use polyglow_predict::attention::Map;

use crate::drawing::{Drawing, Shape, longest};

/// Width and height of a cell, in units of the picture.
const CELL: i32 = 30;
/// Between a label and its row or column.
const GAP: i32 = 6;
/// Around the picture.
const MARGIN: i32 = 8;

/// A picture of the weights of one head.
pub(super) fn drawing<'a>(map: &'a Map, weights: &[f32]) -> Drawing<'a> {
    let margin = |tokens: &[String]| longest(tokens) + GAP + MARGIN;
    let (left, top) = (margin(&map.queries), margin(&map.keys));
    let (x, y) = (
        |key: usize| left + CELL * key as i32,
        |query: usize| top + CELL * query as i32,
    );
    let num_keys = map.keys.len();
    let rows = map.queries.iter().enumerate();
    let rows = rows.map(|(query, text)| Shape::RowLabel {
        x: left - GAP,
        y: y(query) + CELL / 2,
        text,
    });
    let columns = map.keys.iter().enumerate();
    let columns = columns.map(|(key, text)| Shape::ColumnLabel {
        x: x(key) + CELL / 2,
        y: top - GAP,
        text,
    });
    let cell = |(place, &weight)| Shape::Cell {
        x: x(place % num_keys),
        y: y(place / num_keys),
        side: CELL,
        weight,
    };
    let shapes = rows
        .chain(columns)
        .chain(weights.iter().enumerate().map(cell))
        .collect();
    Drawing {
        width: x(num_keys) + MARGIN,
        height: y(map.queries.len()) + MARGIN,
        shapes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(queries: &str, keys: &str, weights: &[f32]) -> Map {
        let tokens = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        Map {
            queries: tokens(queries),
            keys: tokens(keys),
            weights: vec![vec![weights.to_vec()]],
        }
    }

    #[test]
    fn every_weight_has_a_cell_and_every_token_a_label() {
        let map = map("a", "<b> c", &[0.25, 1.0]);
        let drawing = super::drawing(&map, &map.head(0, None));
        let svg = drawing.svg();
        assert!(
            svg.starts_with("<svg")
                && svg.contains(">&lt;b&gt;</text>")
                && svg.matches("<text").count() == 3
        );
        assert!(
            svg.contains("fill-opacity=\"0.250\"") && svg.matches("<rect").count() == 2,
            "{svg}"
        );
        let png = image::load_from_memory(&drawing.png().unwrap())
            .unwrap()
            .to_rgb8();
        // The margins have room for the longest tokens. A unit is two pixels.
        assert_eq!(png.dimensions(), (2 * (22 + 2 * 30 + 8), 2 * (38 + 30 + 8)));
        assert_eq!(png.get_pixel(2 * (22 + 45), 2 * (38 + 15)).0, [0, 114, 178]);
    }

    #[test]
    fn margins_have_room_for_wide_letters() {
        let map = map("日本語", "a", &[1.0]);
        assert_eq!(drawing(&map, &[1.0]).width, 3 * 16 + 14 + 30 + 8);
    }

    #[test]
    fn what_is_too_large_for_pixels_is_an_error_with_another_way() {
        let drawing = Drawing {
            width: 8193,
            height: 10,
            shapes: Vec::new(),
        };
        let error = drawing.png().unwrap_err();
        assert!(
            error.to_string().contains("16386 x 20 pixels")
                && error.hint().unwrap().contains(".svg"),
            "{error}"
        );
    }
}
