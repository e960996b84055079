//! An image under a veil that is darker where it is less looked at.

use image::{Rgb, RgbImage};
use maud::{Markup, html};
use polyglow_model::{ImageShape, PatchShape};

/// An image, and how it is cut into patches.
#[derive(Clone, Debug)]
pub(super) struct PatchedImage {
    pub(super) shape: PatchShape,
    /// `[height, width, channels]`, row by row.
    pub(super) pixels: Vec<u8>,
}

impl PatchedImage {
    /// The pixels, as a group that a page can use several times.
    pub(super) fn picture(&self) -> Markup {
        let ImageShape { width, .. } = self.shape.image;
        html! {
            g #picture shape-rendering="crispEdges" {
                @for (place, [red, green, blue]) in self.colors().enumerate() {
                    path fill=(format!("#{red:02x}{green:02x}{blue:02x}"))
                        d=(format!("M{} {}h1v1h-1z", place % width, place / width)) {}
                }
            }
        }
    }

    /// The picture under the veil, `width` pixels wide.
    ///
    /// # Shapes
    /// - `weights`: `[patches]`
    pub(super) fn over(&self, picture: &Markup, weights: &[f32], width: usize) -> Markup {
        let PatchShape {
            image:
                ImageShape {
                    height: num_rows,
                    width: num_columns,
                    ..
                },
            patch_size: side,
        } = self.shape;
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

    /// The image, its patches darker where they are less looked at, at least `width` pixels wide.
    pub(super) fn pixels_under(&self, weights: &[f32], width: usize) -> RgbImage {
        let ImageShape {
            height, width: own, ..
        } = self.shape.image;
        let (zoom, colors) = (width.div_ceil(own), self.colors_under(weights));
        RgbImage::from_fn((own * zoom) as u32, (height * zoom) as u32, |x, y| {
            Rgb(colors[y as usize / zoom * own + x as usize / zoom])
        })
    }

    /// The colors of all pixels under the veil, row by row.
    pub(super) fn colors_under(&self, weights: &[f32]) -> Vec<[u8; 3]> {
        let PatchShape {
            image: ImageShape { width, .. },
            patch_size: side,
        } = self.shape;
        let ([_, columns], dark) = (self.shape.grid(), darkness(weights));
        let under = |(place, color): (usize, [u8; 3])| {
            let bright = 1.0 - dark[place / width / side * columns + place % width / side];
            color.map(|value| (f32::from(value) * bright).round() as u8)
        };
        self.colors().enumerate().map(under).collect()
    }

    /// Red, green and blue of every pixel.
    fn colors(&self) -> impl Iterator<Item = [u8; 3]> {
        let color = |pixel: &[u8]| {
            if let [red, green, blue] = pixel {
                [*red, *green, *blue]
            } else {
                [pixel[0]; 3]
            }
        };
        self.pixels.chunks(self.shape.image.channels).map(color)
    }
}

/// How dark each patch is drawn, 0 to 1: not at all where the weight is largest.
fn darkness(values: &[f32]) -> Vec<f32> {
    let most = values.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    values
        .iter()
        .map(|value| 0.9 * (1.0 - value / most))
        .collect()
}
