//! The attention of a Vision Transformer, laid over the image that it reads.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use maud::html;
use polyglow_model::{Image, Inspect, Model, ModelShape, Pooling};
use polyglow_predict::attention::head_or_mean;
use polyglow_predict::device::upload;
use polyglow_predict::runner::Runner;
use polyglow_train::{Result, TrainError};

use super::Selection;
use super::patched::PatchedImage;
use crate::document::document;
use crate::drawing::{Format, encode, write};

/// Width of a picture on the page, in pixels of the screen.
const WIDTH: usize = 180;

/// The query whose attention is drawn.
const QUERY: &str = "Who looks is what the label is read from: the trained vector before the patches, or all patches alike.";

const STYLE: &str =
    "figure { display: inline-block; margin: 0 1rem 1rem 0; } figcaption { text-align: center; }";

/// The attention weights of all layers and heads on one image.
#[derive(Clone, Debug)]
pub struct ImageAttention {
    image: PatchedImage,
    /// `[layer][head][patch]`, 0 to 1: how much the trained vector attends to a patch, or without
    /// one the mean over all patches as queries.
    weights: Vec<Vec<Vec<f32>>>,
}

impl ImageAttention {
    /// Runs the first model of an ensemble over an image.
    ///
    /// # Shapes
    /// - `pixels`: `[height, width, channels]` row by row, as the model reads them
    ///
    /// # Errors
    /// The model does not read images.
    pub fn new(runner: &Runner, pixels: Vec<u8>) -> Result<Self> {
        let model = &runner.members[0].model;
        let ModelShape::Vit(config) = model.shape() else {
            return Err(TrainError::new("the model does not read images"));
        };
        let num_before = usize::from(config.pooling == Pooling::Class);
        let weights = looked_at(model, &pixels, &runner.device, num_before);
        Ok(Self {
            image: PatchedImage {
                shape: config.patches,
                pixels,
            },
            weights,
        })
    }

    /// Writes a page with the image and with every layer and head laid over it, or a picture with
    /// one of them.
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
        match format {
            Format::Html => write(path, self.page(title, label)),
            Format::Svg => {
                let picture =
                    self.image
                        .over(&self.image.picture(), &self.selected(selection), 2 * WIDTH);
                write(path, picture.into_string())
            }
            Format::Png => write(
                path,
                encode(
                    &self
                        .image
                        .pixels_under(&self.selected(selection), 2 * WIDTH),
                )?,
            ),
        }
    }

    fn page(&self, title: &str, label: &str) -> String {
        let shared = html! { use href="#picture" {} };
        let over = |weights: &[f32]| self.image.over(&shared, weights, WIDTH);
        let figure = |layer: usize, head: Option<usize>| {
            html! {
                figure {
                    (over(&head_or_mean(&self.weights[layer], head)))
                    figcaption { @match head { Some(head) => { "head " (head + 1) }, None => "mean" } }
                }
            }
        };
        let body = html! {
            svg width="0" height="0" { defs { (self.image.picture()) } }
            h1 { "Attention" }
            p { bdi { (title) } " → " bdi { (label) } }
            p { "The brighter a patch, the more it is looked at; the brightest of each picture is as it was. " (QUERY) }
            (over(&vec![1.0; self.image.shape.num_patches()]))
            @for layer in 0..self.weights.len() {
                h2 { "Layer " (layer + 1) }
                (figure(layer, None))
                @for head in 0..self.weights[layer].len() { (figure(layer, Some(head))) }
            }
        };
        document(&format!("attention: {title}"), STYLE, &body)
    }

    fn selected(&self, Selection { layer, head, .. }: Selection) -> Vec<f32> {
        let layer = layer.unwrap_or(self.weights.len()) - 1;
        head_or_mean(&self.weights[layer], head.map(|head| head - 1))
    }
}

/// How much each patch is looked at, by layer and head.
fn looked_at(
    model: &Model,
    pixels: &[u8],
    device: &Device,
    num_before: usize,
) -> Vec<Vec<Vec<f32>>> {
    let values = pixels.iter().map(|&byte| i32::from(byte)).collect();
    let image = Image {
        pixels: upload(values, pixels.len(), device),
    };
    let of_layer = |layer: Tensor<4>| {
        let [_, num_heads, queries, keys] = layer.dims();
        let values: Vec<f32> = layer.into_data().iter().collect();
        let of_head = |head: &[f32]| {
            let rows = if num_before > 0 { &head[..keys] } else { head };
            let sum = |key: usize| {
                rows.chunks(keys).map(|row| row[key]).sum::<f32>() / (rows.len() / keys) as f32
            };
            (num_before..keys).map(sum).collect()
        };
        values
            .chunks(queries * keys)
            .take(num_heads)
            .map(of_head)
            .collect()
    };
    Inspect::attention(model, image.into())
        .encoder
        .into_iter()
        .map(of_layer)
        .collect()
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
