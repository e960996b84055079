//! The attention of a Vision Transformer, laid over the image that it reads.

use std::path::Path;

use maud::{Markup, html};
use polyglow_predict::attention::{ImageWeights, head_or_mean};
use polyglow_train::Result;

use super::Selection;
use super::patched::PatchedImage;
use crate::document::document;
use crate::drawing::{Format, encode, write};

/// The width of an image on the page, in pixels of the screen.
const WIDTH: usize = 180;

/// Explains which query's attention is drawn.
const QUERY: &str = "Who looks is what the label is read from: the trained vector before the patches, or all patches alike.";

const STYLE: &str =
    "figure { display: inline-block; margin: 0 1rem 1rem 0; } figcaption { text-align: center; }";

/// The attention weights of all layers and heads on one image.
#[derive(Clone, Debug)]
pub struct ImageAttention {
    image: PatchedImage,
    /// `[layer][head][patch]`, 0 to 1: how much the class vector attends to a patch, or without a
    /// class vector the mean over all patches as queries.
    weights: Vec<Vec<Vec<f32>>>,
}

impl ImageAttention {
    /// Makes the picture of an image under weights.
    ///
    /// # Shapes
    /// - `pixels`: `[height, width, channels]` row by row, as the model has read them
    pub fn new(pixels: Vec<u8>, ImageWeights { patches, weights }: ImageWeights) -> Self {
        let image = PatchedImage {
            shape: patches,
            pixels,
        };
        Self { image, weights }
    }

    /// Writes a page with the image and with every layer and head laid over it, or a picture with
    /// the head that `selection` names. The title of the page is the name of the image, `title`,
    /// and the text below it is `label`.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// There is no such layer or head: see [`Selection::check`].
    pub fn write(
        &self,
        [title, label]: [&str; 2],
        selection: Selection,
        format: Format,
        path: &Path,
    ) -> Result<()> {
        if format == Format::Html {
            return write(path, self.page(title, label));
        }
        let weights = selection.head_weights(&self.weights);
        if format == Format::Svg {
            let picture = self.image.picture();
            let svg = self.image.over(&picture, &weights, 2 * WIDTH);
            write(path, svg.into_string())
        } else {
            let pixels = self.image.pixels_under(&weights, 2 * WIDTH);
            write(path, encode(&pixels)?)
        }
    }

    fn page(&self, title: &str, label: &str) -> String {
        // The pixels stand once in the page, and every figure refers to them.
        let shared = html! { use href="#picture" {} };
        let all_bright = vec![1.0; self.image.shape.num_patches()];
        let body = html! {
            svg width="0" height="0" { defs { (self.image.picture()) } }
            h1 { "Attention" }
            p { bdi { (title) } " → " bdi { (label) } }
            p { "The brighter a patch, the more it is looked at; the brightest of each picture is as it was. " (QUERY) }
            (self.image.over(&shared, &all_bright, WIDTH))
            @for layer in 0..self.weights.len() {
                h2 { "Layer " (layer + 1) }
                (self.figure(&shared, layer, None))
                @for head in 0..self.weights[layer].len() { (self.figure(&shared, layer, Some(head))) }
            }
        };
        document(&format!("attention: {title}"), STYLE, &body)
    }

    /// The image under the weights of a head, or under the mean of all heads.
    fn figure(&self, picture: &Markup, layer: usize, head: Option<usize>) -> Markup {
        let weights = head_or_mean(&self.weights[layer], head);
        html! {
            figure {
                (self.image.over(picture, &weights, WIDTH))
                figcaption { @match head { Some(head) => { "head " (head + 1) }, None => "mean" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use polyglow_model::attention::AttentionKind;
    use polyglow_model::{ImageShape, PatchShape};

    use super::*;

    #[test]
    fn a_picture_is_darker_where_less_is_looked_at() {
        let image = ImageShape {
            height: 2,
            width: 4,
            channels: 1,
        };
        let weights = vec![vec![vec![0.5, 1.0], vec![0.0, 1.0]]];
        let shape = PatchShape {
            image,
            patch_size: 2,
        };
        let image = PatchedImage {
            shape,
            pixels: [100, 100, 200, 200].repeat(2),
        };
        let attention = ImageAttention { image, weights };
        let file = tempfile::NamedTempFile::new().unwrap();
        for (head, left) in [(Some(1), 55), (Some(2), 10), (None, 33)] {
            let selection = Selection {
                kind: AttentionKind::Encoder,
                layer: None,
                head,
            };
            attention
                .write(["", ""], selection, Format::Png, file.path())
                .unwrap();
            let picture = image::load_from_memory(&std::fs::read(file.path()).unwrap())
                .unwrap()
                .to_rgb8();
            assert_eq!(picture.dimensions(), (360, 180));
            assert_eq!(
                (picture.get_pixel(90, 90).0, picture.get_pixel(270, 90).0),
                ([left; 3], [200; 3]),
                "{head:?}"
            );
        }
    }
}
