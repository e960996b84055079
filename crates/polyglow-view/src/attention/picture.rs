//! The attention of one head as a picture: a cell for each weight, with the tokens of the queries to
//! the left of the rows and those of the keys above the columns.

use polyglow_predict::attention::Map;

use crate::drawing::{Drawing, Shape, longest};

/// Width and height of a cell, in units of the picture.
const CELL: i32 = 30;
/// The distance of a label from its row or column.
const GAP: i32 = 6;
/// The empty space around the picture.
const MARGIN: i32 = 8;

/// Draws the weights of one head, `[queries * keys]`.
pub(super) fn drawing<'a>(map: &'a Map, weights: &[f32]) -> Drawing<'a> {
    let left = longest(&map.queries) + GAP + MARGIN;
    let top = longest(&map.keys) + GAP + MARGIN;
    let num_keys = map.keys.len();
    let mut shapes = Vec::new();
    for (text, y) in map.queries.iter().zip(edges(top)) {
        shapes.push(Shape::RowLabel {
            x: left - GAP,
            y: y + CELL / 2,
            text,
        });
    }
    for (text, x) in map.keys.iter().zip(edges(left)) {
        shapes.push(Shape::ColumnLabel {
            x: x + CELL / 2,
            y: top - GAP,
            text,
        });
    }
    // A map without keys has no rows of cells either.
    for (row, y) in weights.chunks(num_keys.max(1)).zip(edges(top)) {
        for (&weight, x) in row.iter().zip(edges(left)) {
            shapes.push(Shape::Cell {
                x,
                y,
                side: CELL,
                weight,
            });
        }
    }
    Drawing {
        width: left + CELL * num_keys as i32 + MARGIN,
        height: top + CELL * map.queries.len() as i32 + MARGIN,
        shapes,
    }
}

/// The left or upper edges of the cells, of which the first is at `first`.
fn edges(first: i32) -> impl Iterator<Item = i32> {
    (0..).map(move |index| first + CELL * index)
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
