//! An image under a veil that is darker where less attention goes.
//!
//! The veil leaves the patch with the largest weight as it is: weights sum to 1, so that on an
//! image of many patches all of them would be dark otherwise.

use image::{Rgb, RgbImage};
use maud::{Markup, html};
use polyglow_model::PatchShape;

/// An image, and how it is cut into patches.
#[derive(Clone, Debug)]
pub(super) struct PatchedImage {
    pub(super) shape: PatchShape,
    /// `[height, width, channels]`, row by row.
    pub(super) pixels: Vec<u8>,
}

impl PatchedImage {
    /// Returns the pixels as an SVG group with the id `picture`, which a page can use several
    /// times.
    pub(super) fn picture(&self) -> Markup {
        let width = self.shape.image.width;
        html! {
            g #picture shape-rendering="crispEdges" {
                @for (pixel, [red, green, blue]) in self.colors().enumerate() {
                    path fill=(format!("#{red:02x}{green:02x}{blue:02x}"))
                        d=(format!("M{} {}h1v1h-1z", pixel % width, pixel / width)) {}
                }
            }
        }
    }

    /// Returns an SVG of `picture`, which is [`Self::picture`] or a reference to it, under the
    /// veil, `width` pixels wide. Each patch shows its weight as a tooltip.
    ///
    /// # Shapes
    /// - `weights`: `[patches]`
    pub(super) fn over(&self, picture: &Markup, weights: &[f32], width: usize) -> Markup {
        let num_rows = self.shape.image.height;
        let num_columns = self.shape.image.width;
        let side = self.shape.patch_size;
        let [_, columns] = self.shape.grid();
        html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(width * num_rows / num_columns)
                viewBox=(format!("0 0 {num_columns} {num_rows}")) {
                (picture)
                @for (patch, (weight, dark)) in weights.iter().zip(darkness(weights)).enumerate() {
                    rect x=(patch % columns * side) y=(patch / columns * side) width=(side) height=(side)
                        fill-opacity=(format!("{dark:.3}")) { title { (format!("{weight:.3}")) } }
                }
            }
        }
    }

    /// Returns the image under the veil, enlarged by a whole number so that it is at least `width`
    /// pixels wide.
    pub(super) fn pixels_under(&self, weights: &[f32], width: usize) -> RgbImage {
        let num_rows = self.shape.image.height;
        let num_columns = self.shape.image.width;
        let zoom = width.div_ceil(num_columns);
        let colors = self.colors_under(weights);
        RgbImage::from_fn(
            (num_columns * zoom) as u32,
            (num_rows * zoom) as u32,
            |x, y| Rgb(colors[y as usize / zoom * num_columns + x as usize / zoom]),
        )
    }

    /// Returns the colors of all pixels under the veil, row by row.
    pub(super) fn colors_under(&self, weights: &[f32]) -> Vec<[u8; 3]> {
        let width = self.shape.image.width;
        let side = self.shape.patch_size;
        let [_, columns] = self.shape.grid();
        let dark = darkness(weights);
        let mut colors = Vec::with_capacity(self.pixels.len());
        for (pixel, color) in self.colors().enumerate() {
            let patch = pixel / width / side * columns + pixel % width / side;
            let bright = 1.0 - dark[patch];
            colors.push(color.map(|value| (f32::from(value) * bright).round() as u8));
        }
        colors
    }

    /// Red, green and blue of every pixel.
    fn colors(&self) -> impl Iterator<Item = [u8; 3]> {
        self.pixels.chunks(self.shape.image.channels).map(rgb)
    }
}

/// The color of a pixel with three channels, or with one, which is a shade of gray.
fn rgb(pixel: &[u8]) -> [u8; 3] {
    if let [red, green, blue] = pixel {
        [*red, *green, *blue]
    } else {
        [pixel[0]; 3]
    }
}

/// The opacity of the veil over each patch: 0 where the weight is largest, and never quite 1, so
/// that the image remains recognizable.
fn darkness(weights: &[f32]) -> Vec<f32> {
    let largest = weights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    weights
        .iter()
        .map(|weight| 0.9 * (1.0 - weight / largest))
        .collect()
}
