//! One map as a picture.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, register_font};
use polyglow_model::ModelShape;
use polyglow_model::attention::AttentionKind;

use super::{Map, PairAttention};
use polyglow_train::error::{usage, with_hint};
use polyglow_train::{Result, TrainError};

/// Width and height of a cell, and the size of letters, in pixels.
const CELL: i32 = 30;
const LETTERS: i32 = 15;
/// About the width of a letter.
const LETTER_WIDTH: usize = 9;
/// The darkest color: a weight of 1.
const INK: RGBColor = RGBColor(0, 114, 178);

/// The widest and highest picture, in pixels: one of points takes four bytes of memory each.
const LARGEST: i32 = 16_384;

/// How a picture is written.
#[derive(Clone, Copy, Debug)]
pub enum PictureFormat {
    /// Points.
    Png,
    /// Lines and letters.
    Svg,
}

/// Which map is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Which attention.
    pub kind: AttentionKind,
    /// Which layer, counted from 1; the last when absent.
    pub layer: Option<usize>,
    /// Which head, counted from 1; the mean of all when absent.
    pub head: Option<usize>,
}

impl Selection {
    /// Checks that a model has the layer and the head.
    ///
    /// # Errors
    /// It has not (exit code 2).
    pub fn check(&self, model: &ModelShape) -> Result<()> {
        let (num_layers, num_heads) = model.attention(self.kind);
        if num_layers == 0 {
            let mut kinds = vec![
                ("cross", AttentionKind::Cross),
                ("encoder", AttentionKind::Encoder),
                ("decoder", AttentionKind::Decoder),
            ];
            kinds.retain(|(_, kind)| model.attention(*kind).0 > 0);
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            if names.is_empty() {
                return Err(usage(TrainError::new("this model has no attention that could be drawn")));
            }
            let error = usage(TrainError::new("this model has no attention of that kind"));
            return Err(with_hint(error, format!("`--kind` may be `{}`", names.join("`, `"))));
        }
        for (name, asked, most) in [("layer", self.layer, num_layers), ("head", self.head, num_heads)] {
            if let Some(asked) = asked.filter(|asked| *asked > most) {
                return Err(usage(TrainError::new(format!("there is no {name} {asked}; the last is {most}"))));
            }
        }
        Ok(())
    }
}

/// Draws a map with its tokens to `path`.
///
/// # Errors
/// The picture would be too large; the file cannot be written.
pub fn draw(attention: &PairAttention, selection: Selection, format: PictureFormat, path: &Path) -> Result<()> {
    let map = attention.map(selection.kind);
    let num_layers = map.weights.len();
    if num_layers == 0 {
        return Err(TrainError::new("the model has no such layers"));
    }
    let values = map.head(selection.layer.unwrap_or(num_layers) - 1, selection.head.map(|head| head - 1));
    // A picture of letters needs a font, and a server may have none.
    register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
        .map_err(|_| TrainError::new("the built-in font cannot be read"))?;
    let longest = |names: &[String]| names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let margin = |names: &[String]| (longest(names) * LETTER_WIDTH + 16) as i32;
    let (left, top) = (margin(&map.queries), margin(&map.keys));
    let (width, height) = (left + CELL * map.keys.len() as i32, top + CELL * map.queries.len() as i32);
    if width.max(height) > LARGEST {
        let error = TrainError::new(format!("a picture of {width} x {height} pixels is too large to draw"));
        return Err(with_hint(error, "an .html page shows sentences of any length"));
    }
    let size = ((width + 8) as u32, (height + 8) as u32);
    let failed = |error: &dyn std::fmt::Display| TrainError::new(format!("cannot write `{}`: {error}", path.display()));
    match format {
        PictureFormat::Png => {
            let area = BitMapBackend::new(path, size).into_drawing_area();
            paint(&area, map, &values, (left, top)).and_then(|()| area.present()).map_err(|error| failed(&error))
        }
        PictureFormat::Svg => {
            let area = SVGBackend::new(path, size).into_drawing_area();
            paint(&area, map, &values, (left, top)).and_then(|()| area.present()).map_err(|error| failed(&error))
        }
    }
}

fn paint<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    map: &Map,
    values: &[f32],
    (left, top): (i32, i32),
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let letters = ("sans-serif", LETTERS).into_text_style(area).color(&BLACK);
    let place = |start: i32, index: usize| start + CELL * index as i32;
    for (query, name) in map.queries.iter().enumerate() {
        let beside = letters.pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(name.as_str(), (left - 6, place(top, query) + CELL / 2), beside))?;
    }
    for (key, name) in map.keys.iter().enumerate() {
        let upright = letters.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(name.as_str(), (place(left, key) + CELL / 2, top - 6), upright))?;
    }
    for (index, weight) in values.iter().enumerate() {
        let (x, y) = (place(left, index % map.keys.len()), place(top, index / map.keys.len()));
        let corners = [(x, y), (x + CELL, y + CELL)];
        area.draw(&Rectangle::new(corners, INK.mix(f64::from(*weight)).filled()))?;
        area.draw(&Rectangle::new(corners, BLACK.mix(0.15).stroke_width(1)))?;
    }
    Ok(())
}
