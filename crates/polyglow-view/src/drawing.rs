//! Pictures of labels, cells and points: composed once, written as SVG or PNG.
//!
//! SVG is written by hand, so that the style sheet of a page applies to it. PNG is painted by plotters.

use std::fs;
use std::path::Path;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, register_font};
use polyglow_train::{Result, TrainError};

/// The color of cells and points, as `--mark` of the light theme.
const MARK: RGBColor = RGBColor(0, 114, 178);
/// The style of SVG files, which have no page around them. It applies to nothing else if a page includes the file.
const STYLE: &str = include_str!("drawing.css");

/// The format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Pixels.
    Png,
    /// Vector graphics.
    Svg,
}

/// A picture, in pixels from its upper left corner.
#[derive(Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) width: i32,
    pub(crate) height: i32,
    /// Size of the letters in a PNG; plotters counts their line height, so this is about 5/4 of SVG's font size.
    pub(crate) letters: i32,
    /// Later shapes lie on top of earlier ones.
    pub(crate) shapes: Vec<Shape<'a>>,
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape<'a> {
    /// Text that ends at `x`, its middle at height `y`.
    RowLabel { x: i32, y: i32, text: &'a str },
    /// Text that is turned to read upwards from `y`, its middle at `x`.
    ColumnLabel { x: i32, y: i32, text: &'a str },
    /// A square with its upper left corner at `x` and `y`, the darker the larger `weight` is, 0 to 1.
    Cell { x: i32, y: i32, side: i32, weight: f32 },
    /// A dot with its name to the right.
    Point { x: f64, y: f64, name: &'a str },
}

/// What a PNG is painted on.
pub(crate) type Canvas<'a> = DrawingArea<BitMapBackend<'a>, Shift>;
pub(crate) type PaintError = DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>;

impl Drawing<'_> {
    /// Writes the picture to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, format: PictureFormat, path: &Path) -> Result<()> {
        match format {
            PictureFormat::Svg => write_text(path, &self.svg().into_string()),
            PictureFormat::Png => {
                // Text needs a font, and a server may have none. Registering the same font twice is harmless.
                register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
                    .map_err(|_| TrainError::new("the built-in font cannot be read"))?;
                write_png(path, (self.width, self.height), |canvas| self.paint(canvas))
            }
        }
    }

    /// The shapes as elements of SVG, without the `svg` element around them.
    pub(crate) fn elements(&self) -> Markup {
        html! {
            @for shape in &self.shapes {
                @match *shape {
                    Shape::RowLabel { x, y, text } => { text x=(x) y=(y) dy="0.32em" text-anchor="end" { (text) } }
                    Shape::ColumnLabel { x, y, text } => {
                        text transform=(format!("translate({x} {y}) rotate(-90)")) dy="0.32em" { (text) }
                    }
                    Shape::Cell { x, y, side, weight } => {
                        rect x=(x) y=(y) width=(side) height=(side) fill-opacity=(format!("{weight:.3}")) {}
                    }
                    Shape::Point { x, y, name } => {
                        g transform=(format!("translate({x:.1} {y:.1})")) {
                            title { (name) }
                            circle r="3" {}
                            text x="7" dy="0.32em" { (name) }
                        }
                    }
                }
            }
        }
    }

    fn svg(&self) -> Markup {
        let Self { width, height, .. } = self;
        html! {
            svg.polyglow xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
                viewBox=(format!("0 0 {width} {height}")) {
                style { (PreEscaped(STYLE)) }
                path fill="#fff" d=(format!("M0 0h{width}v{height}h-{width}z")) {}
                (self.elements())
            }
        }
    }

    fn paint(&self, canvas: &Canvas<'_>) -> Result<(), PaintError> {
        canvas.fill(&WHITE)?;
        let letters = ("sans-serif", self.letters).into_text_style(canvas).color(&BLACK);
        for shape in &self.shapes {
            match *shape {
                Shape::RowLabel { x, y, text } => {
                    let style = letters.pos(Pos::new(HPos::Right, VPos::Center));
                    canvas.draw(&Text::new(text, (x, y), style))?;
                }
                Shape::ColumnLabel { x, y, text } => {
                    let style = letters.transform(FontTransform::Rotate270).pos(Pos::new(HPos::Left, VPos::Center));
                    canvas.draw(&Text::new(text, (x, y), style))?;
                }
                Shape::Cell { x, y, side, weight } => {
                    let corners = [(x, y), (x + side, y + side)];
                    canvas.draw(&Rectangle::new(corners, MARK.mix(f64::from(weight)).filled()))?;
                    canvas.draw(&Rectangle::new(corners, BLACK.mix(0.15).stroke_width(1)))?;
                }
                Shape::Point { x, y, name } => {
                    let (x, y) = (x.round() as i32, y.round() as i32);
                    canvas.draw(&Circle::new((x, y), 3, MARK.filled()))?;
                    canvas.draw(&Text::new(name, (x + 6, y - self.letters / 2), letters.clone()))?;
                }
            }
        }
        Ok(())
    }
}

/// Paints a PNG of `width` and `height` pixels.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_png(
    path: &Path,
    (width, height): (i32, i32),
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), PaintError>,
) -> Result<()> {
    let canvas = BitMapBackend::new(path, (width as u32, height as u32)).into_drawing_area();
    let painted = paint(&canvas).and_then(|()| canvas.present());
    painted.map_err(|error| cannot_write(path, TrainError::new(error.to_string())))
}

/// Writes a page or an SVG.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: impl Into<TrainError>) -> TrainError {
    error.into().context(format!("cannot write `{}`", path.display()))
}

/// The least and the largest of some values; infinities in the wrong order if there are none.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_same_color_in_every_format() {
        let RGBColor(red, green, blue) = MARK;
        let color = format!("#{red:02x}{green:02x}{blue:02x}");
        assert!(STYLE.contains(&color) && include_str!("theme.css").contains(&format!("--mark: {color}")));
    }
}
