//! The attention of a captioner: which patches it looks at while it writes each word (Xu et al.,
//! 2015, figure 3).

use std::iter;
use std::path::Path;

use maud::{Markup, html};
use polyglow_predict::attention::{CaptionWeights, head_or_mean};
use polyglow_train::Result;

use super::Selection;
use super::patched::PatchedImage;
use crate::document::document;
use crate::drawing::{Drawing, Format, Shape, write};

/// The width of an image on the page and in a strip, in pixels of the screen.
const WIDTH: usize = 150;
/// The distance between the images of a strip, and around them.
const MARGIN: i32 = 8;
/// The height of the words below the images of a strip.
const LINE: i32 = 22;
/// The number of images in a row of a strip.
const COLUMNS: usize = 6;

const STYLE: &str =
    "figure { display: inline-block; margin: 0 0.7rem 1rem 0; } figcaption { text-align: center; }";

/// The attention weights from the tokens of a caption to the patches of its image.
#[derive(Clone, Debug)]
pub struct CaptionAttention {
    image: PatchedImage,
    /// The tokens of the caption and its EOS token, as people read them.
    tokens: Vec<String>,
    /// `[layer][head][token * patches + patch]`, 0 to 1; a token's weights are those with which it
    /// is predicted, and sum to 1.
    weights: Vec<Vec<Vec<f32>>>,
}

impl CaptionAttention {
    /// Makes the pictures of an image under the weights of each token of its caption.
    ///
    /// # Shapes
    /// - `pixels`: `[height, width, channels]` row by row, as the model has read them
    pub fn new(pixels: Vec<u8>, weights: CaptionWeights) -> Self {
        let image = PatchedImage {
            shape: weights.patches,
            pixels,
        };
        Self {
            image,
            tokens: weights.tokens,
            weights: weights.weights,
        }
    }

    /// Writes a page with the image once for each token, layer and head; or a picture with a strip
    /// of images for the layer, or the head of it, that `selection` names. The title of the page
    /// is the name of the image, `title`, and the text below it is `caption`.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// There is no such layer or head: see [`Selection::check`].
    pub fn write(
        &self,
        [title, caption]: [&str; 2],
        selection: Selection,
        format: Format,
        path: &Path,
    ) -> Result<()> {
        if format == Format::Html {
            return write(path, self.page(title, caption));
        }
        let weights = selection.head_weights(&self.weights);
        let drawing = self.strip(&weights);
        if format == Format::Svg {
            write(path, drawing.svg())
        } else {
            write(path, drawing.png()?)
        }
    }

    fn page(&self, title: &str, caption: &str) -> String {
        let num_patches = self.image.shape.num_patches();
        // The pixels stand once in the page, and every figure refers to them.
        let shared = html! { use href="#picture" {} };
        let body = html! {
            svg width="0" height="0" { defs { (self.image.picture()) } }
            h1 { "Attention" }
            p { bdi { (title) } " → " bdi { (caption) } }
            p {
                "For each word: the brighter a patch, the more the model looked at it when it wrote the word; the brightest of "
                "each picture is as it was."
            }
            (self.image.over(&shared, &vec![1.0; num_patches], WIDTH))
            @for layer in (0..self.weights.len()).rev() {
                h2 { "Layer " (layer + 1) @if self.weights[layer].len() > 1 { ", the mean of its heads" } }
                div { (self.figures(&shared, layer, None)) }
                @if self.weights[layer].len() > 1 {
                    details {
                        summary { "Each head of layer " (layer + 1) }
                        @for head in 0..self.weights[layer].len() {
                            h3 { "Head " (head + 1) }
                            div { (self.figures(&shared, layer, Some(head))) }
                        }
                    }
                }
            }
        };
        document(&format!("attention: {title}"), STYLE, &body)
    }

    /// A figure for each token, with the weights of a head, or with the mean of all heads.
    fn figures(&self, picture: &Markup, layer: usize, head: Option<usize>) -> Markup {
        let weights = head_or_mean(&self.weights[layer], head);
        let rows = weights.chunks(self.image.shape.num_patches());
        html! {
            @for (token, weights) in self.tokens.iter().zip(rows) {
                figure { (self.image.over(picture, weights, WIDTH)) figcaption { bdi { (token) } } }
            }
        }
    }

    /// The image as it is, and then the image under the weights of each token, with the token below.
    fn strip(&self, weights: &[f32]) -> Drawing<'_> {
        let shape = self.image.shape;
        let width = shape.image.width as i32;
        let height = shape.image.height as i32;
        // The side of a pixel of the image.
        let side = (WIDTH as i32 / width).max(1);
        let step_x = width * side + MARGIN;
        let step_y = height * side + LINE + MARGIN;

        let num_patches = shape.num_patches();
        let all_bright = vec![1.0; num_patches];
        let texts = iter::once("").chain(self.tokens.iter().map(String::as_str));
        let rows = iter::once(&all_bright[..]).chain(weights.chunks(num_patches));
        let mut shapes = Vec::new();
        for (index, (text, weights)) in texts.zip(rows).enumerate() {
            let left = (index % COLUMNS) as i32 * step_x + MARGIN;
            let top = (index / COLUMNS) as i32 * step_y + MARGIN;
            for (pixel, color) in (0..).zip(self.image.colors_under(weights)) {
                let x = left + pixel % width * side;
                let y = top + pixel / width * side;
                shapes.push(Shape::Pixel { x, y, side, color });
            }
            shapes.push(Shape::RowLabel {
                x: left + width * side,
                y: top + height * side + LINE / 2,
                text,
            });
        }
        let count = self.tokens.len() + 1;
        Drawing {
            width: count.min(COLUMNS) as i32 * step_x + MARGIN,
            height: count.div_ceil(COLUMNS) as i32 * step_y + MARGIN,
            shapes,
        }
    }
}

#[cfg(test)]
mod tests {
    use polyglow_model::attention::AttentionKind;
    use polyglow_model::{ImageShape, PatchShape};

    use super::*;

    fn attention() -> CaptionAttention {
        let image = ImageShape {
            height: 2,
            width: 4,
            channels: 1,
        };
        let shape = PatchShape {
            image,
            patch_size: 2,
        };
        let image = PatchedImage {
            shape,
            pixels: vec![100, 100, 200, 200, 100, 100, 200, 200],
        };
        // Two tokens, two patches, two heads.
        let weights = vec![vec![vec![1.0, 0.0, 0.0, 1.0], vec![1.0, 0.0, 0.5, 0.5]]];
        CaptionAttention {
            image,
            tokens: vec!["left".to_owned(), "<b>".to_owned()],
            weights,
        }
    }

    #[test]
    fn each_word_has_a_picture_that_is_bright_where_it_looks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let selection = Selection {
            kind: AttentionKind::Cross,
            layer: None,
            head: Some(1),
        };
        attention()
            .write(["image", "left <b>"], selection, Format::Png, file.path())
            .unwrap();
        let picture = image::load_from_memory(&std::fs::read(file.path()).unwrap())
            .unwrap()
            .to_rgb8();
        // Three pictures of 4 x 2 pixels, each 37 units wide; a unit is two pixels.
        let pixel = |index: u32, x: u32| {
            let left = 8 + index * 156 + x * 37;
            picture.get_pixel(2 * (left + 18), 2 * (8 + 18)).0[0]
        };
        assert_eq!([pixel(0, 0), pixel(0, 3)], [100, 200]);
        assert_eq!([pixel(1, 0), pixel(1, 3)], [100, 20]);
        assert_eq!([pixel(2, 0), pixel(2, 3)], [10, 200]);
    }

    #[test]
    fn a_page_has_every_layer_and_head_and_its_text_is_no_markup() {
        let page = attention().page("<i>", "left <b>");
        // The image, two tokens for the mean, and two for each head.
        assert_eq!(page.matches("<use href=\"#picture\">").count(), 7, "{page}");
        assert!(
            page.contains("<bdi>&lt;b&gt;</bdi>") && !page.contains("<b>") && !page.contains("<i>")
        );
    }
}
