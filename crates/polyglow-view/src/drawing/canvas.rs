//! A raster image: shapes and text, blended into pixels.
//!
//! Positions are given in units of a drawing, with y downwards. Every shape is antialiased by how
//! much of a pixel it covers.

use std::io::Cursor;

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use image::{ImageFormat, Rgb, RgbImage};
use polyglow_predict::error::with_hint;
use polyglow_train::{Result, TrainError};

use super::letters::{Curve, Fonts, Line, SIZE};

/// Pixels of a unit, in each direction: twice those of an SVG, so that letters are sharp on fine
/// screens and in print.
const PIXELS: i32 = 2;
/// The widest and highest picture, in pixels: each takes three bytes of memory.
const LARGEST: i32 = 16_384;
/// The distance of the baseline below the middle of text, as a share of the font size: `dy` of the
/// SVG's labels, so that both formats look the same.
const BASELINE: f32 = 0.32;
const BLACK: [u8; 3] = [0; 3];

/// A raster image to draw on, and the fonts of its text.
pub(super) struct Canvas {
    pixels: RgbImage,
    fonts: Fonts,
}

impl Canvas {
    /// A white image, `width` by `height` units.
    ///
    /// # Errors
    /// A side is longer than [`LARGEST`]; the hint names the formats without a limit.
    pub(super) fn new(width: i32, height: i32) -> Result<Self> {
        let width = width.saturating_mul(PIXELS);
        let height = height.saturating_mul(PIXELS);
        if width.max(height) > LARGEST {
            let error = TrainError::new(format!(
                "a picture of {width} x {height} pixels is too large to draw"
            ));
            return Err(with_hint(
                error,
                "an .svg picture and an .html page show sentences of any length",
            ));
        }
        let pixels = RgbImage::from_pixel(width as u32, height as u32, Rgb([255; 3]));
        Ok(Self {
            pixels,
            fonts: Fonts::new(),
        })
    }

    /// Writes text that ends at `x`, its middle at height `y`.
    pub(super) fn write_before(&mut self, text: &str, x: f32, y: f32) {
        let line = self.fonts.line(text);
        let start = point(x - line.width, y + BASELINE * SIZE);
        self.write(&line, |offset| start + offset);
    }

    /// Writes text that begins at `x`, its middle at height `y`.
    pub(super) fn write_after(&mut self, text: &str, x: f32, y: f32) {
        let line = self.fonts.line(text);
        let start = point(x, y + BASELINE * SIZE);
        self.write(&line, |offset| start + offset);
    }

    /// Writes text that is turned to read upwards from `y`, its middle at `x`.
    pub(super) fn write_upwards(&mut self, text: &str, x: f32, y: f32) {
        let line = self.fonts.line(text);
        let start = point(x + BASELINE * SIZE, y);
        self.write(&line, |offset| {
            point(start.x + offset.y, start.y - offset.x)
        });
    }

    /// Writes a line of text. `position` maps a point of the line, from its left end on the
    /// baseline, to one of the drawing.
    fn write(&mut self, line: &Line, position: impl Fn(Point) -> Point) {
        for letter in &line.letters {
            let mut curves: Vec<Curve> = Vec::with_capacity(letter.len());
            for curve in letter {
                curves.push(curve.map(|offset| {
                    let Point { x, y } = position(offset);
                    point(x * PIXELS as f32, y * PIXELS as f32)
                }));
            }
            self.fill(&curves);
        }
    }

    /// Fills an outline, whose points are in pixels.
    fn fill(&mut self, curves: &[Curve]) {
        if curves.is_empty() {
            return;
        }
        // The box around all control points, which a curve never leaves.
        let mut left = f32::INFINITY;
        let mut top = f32::INFINITY;
        let mut right = f32::NEG_INFINITY;
        let mut bottom = f32::NEG_INFINITY;
        for Point { x, y } in curves.iter().flatten() {
            left = left.min(*x);
            top = top.min(*y);
            right = right.max(*x);
            bottom = bottom.max(*y);
        }
        let left = left.floor();
        let top = top.floor();
        // The coverage of each pixel of the box.
        let mut inside = Rasterizer::new((right - left) as usize + 1, (bottom - top) as usize + 1);
        for curve in curves {
            let [start, near_start, near_end, end] =
                curve.map(|Point { x, y }| point(x - left, y - top));
            inside.draw_cubic(start, near_start, near_end, end);
        }
        inside.for_each_pixel_2d(|x, y, share| {
            self.blend(left as i32 + x as i32, top as i32 + y as i32, BLACK, share);
        });
    }

    /// Fills a square whose upper left corner is at `x` and `y`; `share` is its opacity, 0 to 1.
    pub(super) fn fill_square(&mut self, x: i32, y: i32, side: i32, color: [u8; 3], share: f32) {
        let [x, y, side] = [x, y, side].map(|unit| unit * PIXELS);
        for row in y..y + side {
            for column in x..x + side {
                self.blend(column, row, color, share);
            }
        }
    }

    /// Draws the edges of a square, one unit wide; half of it lies outside.
    pub(super) fn frame_square(&mut self, x: i32, y: i32, side: i32, color: [u8; 3], share: f32) {
        let half = PIXELS / 2;
        let [x, y, side] = [x, y, side].map(|unit| unit * PIXELS);
        let inside = half..side - half;
        for down in -half..side + half {
            for right in -half..side + half {
                if !inside.contains(&down) || !inside.contains(&right) {
                    self.blend(x + right, y + down, color, share);
                }
            }
        }
    }

    /// Fills a circle around `x` and `y`.
    pub(super) fn fill_circle(&mut self, x: f32, y: f32, radius: f32, color: [u8; 3]) {
        let [x, y, radius] = [x, y, radius].map(|unit| unit * PIXELS as f32);
        for row in (y - radius) as i32 - 1..=(y + radius) as i32 + 1 {
            for column in (x - radius) as i32 - 1..=(x + radius) as i32 + 1 {
                // A pixel on the edge is covered by as much as its center lies within.
                let distance = (column as f32 + 0.5 - x).hypot(row as f32 + 0.5 - y);
                self.blend(column, row, color, radius + 0.5 - distance);
            }
        }
    }

    /// Draws a line with round ends.
    pub(super) fn draw_line(&mut self, from: [f32; 2], to: [f32; 2], width: f32, color: [u8; 3]) {
        let [start_x, start_y] = from.map(|unit| unit * PIXELS as f32);
        let [end_x, end_y] = to.map(|unit| unit * PIXELS as f32);
        let radius = width / 2.0 * PIXELS as f32;
        let x = end_x - start_x;
        let y = end_y - start_y;
        let square = x * x + y * y;
        let left = (start_x.min(end_x) - radius) as i32 - 1;
        let right = (start_x.max(end_x) + radius) as i32 + 1;
        let top = (start_y.min(end_y) - radius) as i32 - 1;
        let bottom = (start_y.max(end_y) + radius) as i32 + 1;
        for row in top..=bottom {
            for column in left..=right {
                let across = column as f32 + 0.5 - start_x;
                let down = row as f32 + 0.5 - start_y;
                // The nearest point of the line, as a share of its length.
                let share = if square > 0.0 {
                    ((across * x + down * y) / square).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let distance = (across - share * x).hypot(down - share * y);
                self.blend(column, row, color, radius + 0.5 - distance);
            }
        }
    }

    /// Lays a color over a pixel; `share` is its opacity, cut to 0 to 1. Pixels outside of the
    /// image are ignored.
    fn blend(&mut self, x: i32, y: i32, color: [u8; 3], share: f32) {
        let index = u32::try_from(x).ok().zip(u32::try_from(y).ok());
        let Some((x, y)) = index else {
            return;
        };
        let Some(Rgb(pixel)) = self.pixels.get_pixel_mut_checked(x, y) else {
            return;
        };
        let share = share.clamp(0.0, 1.0);
        for (old, new) in pixel.iter_mut().zip(color) {
            *old = (f32::from(*old) * (1.0 - share) + f32::from(new) * share).round() as u8;
        }
    }

    /// Encodes the image as a PNG file, and warns of characters that no font has.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.fonts.warn();
        encode(&self.pixels)
    }
}

/// Encodes pixels as a PNG file.
///
/// # Errors
/// The encoder fails.
pub(crate) fn encode(pixels: &RgbImage) -> Result<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    let written = pixels.write_to(&mut file, ImageFormat::Png);
    written.map_err(|error| TrainError::new(format!("cannot write the picture: {error}")))?;
    Ok(file.into_inner())
}
