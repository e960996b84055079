//! Where a captioner looks while it writes each word (Xu et al., 2015, figure 3).

use std::path::Path;

use burn::tensor::Tensor;
use maud::html;
use polyglow_data::padded::Padded;
use polyglow_model::{Inspect, ModelShape, Pair};
use polyglow_predict::attention::head_or_mean;
use polyglow_predict::device::upload_rows;
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::images::image;
use polyglow_train::{Result, TrainError};

use super::Selection;
use super::patched::PatchedImage;
use crate::document::document;
use crate::drawing::{Drawing, Format, Shape, write};

/// Width of a picture on the page and in a strip, in pixels of the screen.
const WIDTH: usize = 150;
/// Around the pictures of a strip, and the height of the words below them.
const MARGIN: i32 = 8;
const LINE: i32 = 22;
/// Pictures beside each other in a strip.
const COLUMNS: usize = 6;

const STYLE: &str =
    "figure { display: inline-block; margin: 0 0.7rem 1rem 0; } figcaption { text-align: center; }";

/// The attention weights from the tokens of a caption to the patches of its image.
#[derive(Clone, Debug)]
pub struct CaptionAttention {
    image: PatchedImage,
    /// Tokens of the caption with its end, as people read them.
    tokens: Vec<String>,
    /// `[layer][head][token * patches + patch]`, 0 to 1; a token's weights are those with which it
    /// is predicted, and sum to 1.
    weights: Vec<Vec<Vec<f32>>>,
}

impl CaptionAttention {
    /// Runs the first model of an ensemble over an image and a caption of it, with teacher forcing.
    ///
    /// # Shapes
    /// - `pixels`: `[height, width, channels]` row by row, as the model reads them
    ///
    /// # Errors
    /// The model does not describe images; the caption cannot be encoded.
    pub fn new(runner: &Runner, pixels: Vec<u8>, caption: &str) -> Result<Self> {
        let model = &runner.members[0].model;
        let ModelShape::Captioner(shape) = model.shape() else {
            return Err(TrainError::new("the model does not describe images"));
        };
        let mut tgt = runner.tgt.encode(caption)?;
        tgt.truncate(runner.longest);
        let special = runner.tgt.special();
        let tokens: Vec<u32> = tgt.iter().copied().chain([special.eos]).collect();
        let (tokens, counts): (Vec<String>, Vec<usize>) =
            runner.tgt.shown_together(&tokens).into_iter().unzip();
        let tgt_in = Padded::begun(&[tgt], special.bos, special.pad, 1);
        let inputs = Pair {
            src: image(&pixels, 1, &runner.device).into(),
            tgt_in: upload_rows(&tgt_in, &runner.device),
        };
        let num_patches = shape.patches.num_patches();
        let heads = |layer: Tensor<4>| {
            let [_, _, len, patches] = layer.dims();
            let values: Vec<f32> = layer.into_data().iter().collect();
            values
                .chunks(len * patches)
                .map(|head| of_characters(head, &counts, num_patches))
                .collect()
        };
        let weights = Inspect::attention(model, inputs.into())
            .cross
            .into_iter()
            .map(heads)
            .collect();
        Ok(Self {
            image: PatchedImage {
                shape: shape.patches,
                pixels,
            },
            tokens,
            weights,
        })
    }

    /// Writes a page with a picture for each token, layer and head; or a picture with one layer, or
    /// one head of it.
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
        let layer = selection.layer.unwrap_or(self.weights.len()) - 1;
        let weights = head_or_mean(&self.weights[layer], selection.head.map(|head| head - 1));
        let drawing = self.strip(&weights);
        if format == Format::Svg {
            write(path, drawing.svg())
        } else {
            write(path, drawing.png()?)
        }
    }

    fn page(&self, title: &str, caption: &str) -> String {
        let num_patches = self.image.shape.num_patches();
        let shared = html! { use href="#picture" {} };
        let row = |layer: usize, head: Option<usize>| {
            let weights = head_or_mean(&self.weights[layer], head);
            html! {
                @for (token, weights) in self.tokens.iter().zip(weights.chunks(num_patches)) {
                    figure { (self.image.over(&shared, weights, WIDTH)) figcaption { bdi { (token) } } }
                }
            }
        };
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
                div { (row(layer, None)) }
                @if self.weights[layer].len() > 1 {
                    details {
                        summary { "Each head of layer " (layer + 1) }
                        @for head in 0..self.weights[layer].len() {
                            h3 { "Head " (head + 1) }
                            div { (row(layer, Some(head))) }
                        }
                    }
                }
            }
        };
        document(&format!("attention: {title}"), STYLE, &body)
    }

    /// The image, and the image as each token looked at it, with the tokens below.
    fn strip(&self, weights: &[f32]) -> Drawing<'_> {
        let shape = self.image.shape;
        let [height, width] = [shape.image.height, shape.image.width].map(|side| side as i32);
        let side = (WIDTH as i32 / width).max(1);
        let num_patches = shape.num_patches();
        let whole = vec![1.0; num_patches];
        let pictures = [("", &whole[..])].into_iter();
        let pictures = pictures.chain(
            self.tokens
                .iter()
                .map(String::as_str)
                .zip(weights.chunks(num_patches)),
        );
        let (step_x, step_y) = (width * side + MARGIN, height * side + LINE + MARGIN);
        let mut shapes = Vec::new();
        for (number, (token, weights)) in pictures.enumerate() {
            let [left, top] = [
                (number % COLUMNS) as i32 * step_x + MARGIN,
                (number / COLUMNS) as i32 * step_y + MARGIN,
            ];
            for (place, color) in (0..).zip(self.image.colors_under(weights)) {
                let (x, y) = (left + place % width * side, top + place / width * side);
                shapes.push(Shape::Pixel { x, y, side, color });
            }
            shapes.push(Shape::RowLabel {
                x: left + width * side,
                y: top + height * side + LINE / 2,
                text: token,
            });
        }
        let count = self.tokens.len() + 1;
        let (columns, rows) = (count.min(COLUMNS) as i32, count.div_ceil(COLUMNS) as i32);
        Drawing {
            width: columns * step_x + MARGIN,
            height: rows * step_y + MARGIN,
            shapes,
        }
    }
}

/// The weights of a head where tokens that are parts of one character are one: the mean of `counts`
/// rows each.
fn of_characters(head: &[f32], counts: &[usize], num_patches: usize) -> Vec<f32> {
    let mut rows = head.chunks(num_patches);
    let mean = |&count: &usize| {
        let mut mean = vec![0.0; num_patches];
        for row in rows.by_ref().take(count) {
            mean.iter_mut()
                .zip(row)
                .for_each(|(mean, weight)| *mean += weight / count as f32);
        }
        mean
    };
    counts.iter().flat_map(mean).collect()
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
        let pixel = |number: u32, x: u32| {
            picture
                .get_pixel(2 * (8 + number * 156 + x * 37 + 18), 2 * (8 + 18))
                .0[0]
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

    #[test]
    fn parts_of_a_character_are_one_word() {
        assert_eq!(
            of_characters(&[1.0, 0.0, 0.0, 1.0, 0.5, 0.5], &[2, 1], 2),
            [0.5, 0.5, 0.5, 0.5]
        );
    }
}
