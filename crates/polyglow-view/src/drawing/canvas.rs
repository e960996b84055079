//! A picture as pixels.

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
/// How far the base line lies below the middle of text, as a share of the size of letters.
const BELOW: f32 = 0.32;
const BLACK: [u8; 3] = [0; 3];

pub(super) struct Canvas {
    pixels: RgbImage,
    fonts: Fonts,
}

impl Canvas {
    /// White paper of this many units.
    ///
    /// # Errors
    /// It is too large.
    pub(super) fn new(width: i32, height: i32) -> Result<Self> {
        let (width, height) = (width.saturating_mul(PIXELS), height.saturating_mul(PIXELS));
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
        let start = x - line.width;
        self.write(&line, |place| {
            point(start + place.x, y + BELOW * SIZE + place.y)
        });
    }

    /// Writes text that begins at `x`, its middle at height `y`.
    pub(super) fn write_after(&mut self, text: &str, x: f32, y: f32) {
        let line = self.fonts.line(text);
        self.write(&line, |place| {
            point(x + place.x, y + BELOW * SIZE + place.y)
        });
    }

    /// Writes text that is turned to read upwards from `y`, its middle at `x`.
    pub(super) fn write_upwards(&mut self, text: &str, x: f32, y: f32) {
        let line = self.fonts.line(text);
        self.write(&line, |place| {
            point(x + BELOW * SIZE + place.y, y - place.x)
        });
    }

    fn write(&mut self, line: &Line, place: impl Fn(Point) -> Point) {
        let pixel = |unit: Point| {
            let Point { x, y } = place(unit);
            point(x * PIXELS as f32, y * PIXELS as f32)
        };
        for letter in &line.letters {
            let curves: Vec<Curve> = letter.iter().map(|curve| curve.map(pixel)).collect();
            self.fill(&curves);
        }
    }

    /// Fills an outline, whose points are in pixels.
    fn fill(&mut self, curves: &[Curve]) {
        if curves.is_empty() {
            return;
        }
        let points = || curves.iter().flatten();
        let left = points()
            .map(|point| point.x)
            .fold(f32::INFINITY, f32::min)
            .floor();
        let top = points()
            .map(|point| point.y)
            .fold(f32::INFINITY, f32::min)
            .floor();
        let right = points().map(|point| point.x).fold(left, f32::max);
        let bottom = points().map(|point| point.y).fold(top, f32::max);
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

    pub(super) fn fill_square(&mut self, x: i32, y: i32, side: i32, color: [u8; 3], share: f32) {
        let (x, y, side) = (x * PIXELS, y * PIXELS, side * PIXELS);
        (y..y + side).for_each(|y| (x..x + side).for_each(|x| self.blend(x, y, color, share)));
    }

    /// Draws the edges of a square, one unit wide; half of it lies outside.
    pub(super) fn frame_square(&mut self, x: i32, y: i32, side: i32, color: [u8; 3], share: f32) {
        let half = PIXELS / 2;
        let (x, y, side) = (x * PIXELS, y * PIXELS, side * PIXELS);
        let is_inside = |place: i32| (half..side - half).contains(&place);
        for down in -half..side + half {
            for right in -half..side + half {
                if !is_inside(down) || !is_inside(right) {
                    self.blend(x + right, y + down, color, share);
                }
            }
        }
    }

    pub(super) fn fill_circle(&mut self, x: f32, y: f32, radius: f32, color: [u8; 3]) {
        let (x, y, radius) = (x * PIXELS as f32, y * PIXELS as f32, radius * PIXELS as f32);
        for row in (y - radius) as i32 - 1..=(y + radius) as i32 + 1 {
            for column in (x - radius) as i32 - 1..=(x + radius) as i32 + 1 {
                let distance = (column as f32 + 0.5 - x).hypot(row as f32 + 0.5 - y);
                self.blend(column, row, color, radius + 0.5 - distance);
            }
        }
    }

    /// Draws a line with round ends.
    pub(super) fn draw_line(&mut self, from: [f32; 2], to: [f32; 2], width: f32, color: [u8; 3]) {
        let [[left, top], [right, bottom]] =
            [from, to].map(|end| end.map(|unit| unit * PIXELS as f32));
        let (x, y, radius) = (right - left, bottom - top, width / 2.0 * PIXELS as f32);
        let square = x * x + y * y;
        for row in (top.min(bottom) - radius) as i32 - 1..=(top.max(bottom) + radius) as i32 + 1 {
            for column in
                (left.min(right) - radius) as i32 - 1..=(left.max(right) + radius) as i32 + 1
            {
                let (across, down) = (column as f32 + 0.5 - left, row as f32 + 0.5 - top);
                // The place on the line that is nearest, as a share of its length.
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

    /// Lays a color over a pixel, as opaque as `share` says. What is outside of the picture is not
    /// drawn.
    fn blend(&mut self, x: i32, y: i32, color: [u8; 3], share: f32) {
        let place = u32::try_from(x).ok().zip(u32::try_from(y).ok());
        let Some(Rgb(pixel)) = place.and_then(|(x, y)| self.pixels.get_pixel_mut_checked(x, y))
        else {
            return;
        };
        let share = share.clamp(0.0, 1.0);
        for (old, new) in pixel.iter_mut().zip(color) {
            *old = (f32::from(*old) * (1.0 - share) + f32::from(new) * share).round() as u8;
        }
    }

    /// The picture as a file of PNG.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.fonts.warn();
        encode(&self.pixels)
    }
}

/// Pixels as a file of PNG.
pub(crate) fn encode(pixels: &RgbImage) -> Result<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    let written = pixels.write_to(&mut file, ImageFormat::Png);
    written.map_err(|error| TrainError::new(format!("cannot write the picture: {error}")))?;
    Ok(file.into_inner())
}
