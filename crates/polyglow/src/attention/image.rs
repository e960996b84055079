//! The picture that a Vision Transformer looks at, with what it looks at laid over it.

use std::fmt::Write;

use maud::{DOCTYPE, PreEscaped, html};
use polyglow_data::tokenizer::text_of_bytes;
use polyglow_model::{ImageShape, Model, ModelShape, Pooling};

use super::Selection;
use crate::device::upload;
use crate::translate::Translator;

/// Width of a picture on the page, in pixels of the screen.
const WIDTH: usize = 180;

/// Whose attention is drawn.
const WHO: &str =
    "Who looks is what the label is read from: the trained vector before the patches, or all patches alike.";

const STYLE: &str = "body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff; } \
                     figure { display: inline-block; margin: 0 1rem 1rem 0; } figcaption { text-align: center; }";

/// The weights of all layers and heads on one image.
#[derive(Clone, Debug)]
pub struct ImageAttention {
    image: ImageShape,
    pixels: Vec<u8>,
    /// Rows and columns of patches.
    grid: [usize; 2],
    /// `[layer][head][patch]`, 0 to 1: how much the trained vector looks at a patch, or without one the mean of all patches.
    weights: Vec<Vec<Vec<f32>>>,
}

impl ImageAttention {
    /// Runs the first of the models over an image.
    ///
    /// # Errors
    /// It is no model of images.
    pub fn new(translator: &Translator<'_>, pixels: Vec<u8>) -> anyhow::Result<Self> {
        let member = translator.members[0];
        let ModelShape::Vit(config) = member.model.shape() else { anyhow::bail!("the model does not read images") };
        let grid = config.grid();
        let ids = member.src.encode(&text_of_bytes(&pixels))?.into_iter().map(|id| id as i32).collect();
        let num_before = usize::from(config.pooling == Pooling::Class);
        let weights = looked_at(member.model, ids, translator, num_before);
        Ok(Self { image: config.image, pixels, grid, weights })
    }

    /// A page with the picture, and with every layer and head over it.
    pub fn page(&self, title: &str, label: &str) -> String {
        let figure = |layer: usize, head: Option<usize>| {
            html! {
                figure {
                    (PreEscaped(self.over(&self.head(layer, head), WIDTH)))
                    figcaption { @match head { Some(head) => { "head " (head + 1) }, None => "mean" } }
                }
            }
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    title { "attention: " (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    svg width="0" height="0" { defs { (PreEscaped(self.picture())) } }
                    h1 { "Attention" }
                    p { (title) " → " (label) }
                    p { "The brighter a patch, the more is it looked at; the brightest of each picture is as it was. " (WHO) }
                    (PreEscaped(self.over(&vec![1.0; self.grid[0] * self.grid[1]], WIDTH)))
                    @for layer in 0..self.weights.len() {
                        h2 { "Layer " (layer + 1) }
                        (figure(layer, None))
                        @for head in 0..self.weights[layer].len() { (figure(layer, Some(head))) }
                    }
                }
            }
        };
        page.into_string()
    }

    /// The picture with one layer and head over it, as SVG.
    pub fn svg(&self, selection: Selection) -> String {
        let layer = selection.layer.unwrap_or(self.weights.len()) - 1;
        let values = self.head(layer, selection.head.map(|head| head - 1));
        let over = self.over(&values, 2 * WIDTH);
        over.replacen('>', &format!("><defs>{}</defs>", self.picture()), 1)
    }

    /// The weights of a head, or without one the mean over the heads.
    fn head(&self, layer: usize, head: Option<usize>) -> Vec<f32> {
        let heads = &self.weights[layer];
        match head {
            Some(head) => heads[head].clone(),
            None => (0..heads[0].len())
                .map(|patch| heads.iter().map(|head| head[patch]).sum::<f32>() / heads.len() as f32)
                .collect(),
        }
    }

    /// The pixels, to be used by that name.
    fn picture(&self) -> String {
        let ImageShape { width, channels, .. } = self.image;
        let mut text = "<g id=\"picture\" shape-rendering=\"crispEdges\">".to_owned();
        for (place, pixel) in self.pixels.chunks(channels).enumerate() {
            let (x, y) = (place % width, place / width);
            let [red, green, blue] = if channels == 3 { [pixel[0], pixel[1], pixel[2]] } else { [pixel[0]; 3] };
            // Writing to a string cannot fail.
            let _ = write!(text, "<path fill=\"#{red:02x}{green:02x}{blue:02x}\" d=\"M{x} {y}h1v1h-1z\"/>");
        }
        text + "</g>"
    }

    /// The picture, dark where nobody looks.
    fn over(&self, values: &[f32], width: usize) -> String {
        let ([_, columns], ImageShape { height: rows_of_pixels, width: of_row, .. }) = (self.grid, self.image);
        let side = of_row / columns;
        let most = values.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let height = width * rows_of_pixels / of_row;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {of_row} {rows_of_pixels}\"><use href=\"#picture\"/>"
        );
        for (patch, value) in values.iter().enumerate() {
            let (x, y) = (patch % columns * side, patch / columns * side);
            let dark = 0.9 * (1.0 - value / most);
            let _ = write!(
                text,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill-opacity=\"{dark:.3}\">\
                 <title>{value:.3}</title></rect>"
            );
        }
        text + "</svg>"
    }
}

/// How much each patch is looked at, by layer and head.
fn looked_at(model: &Model, ids: Vec<i32>, translator: &Translator<'_>, num_before: usize) -> Vec<Vec<Vec<f32>>> {
    let len = ids.len();
    let src = upload(ids, len, translator.device);
    let of_layer = |layer: burn::tensor::Tensor<4>| {
        let [_, num_heads, queries, keys] = layer.dims();
        let values: Vec<f32> = layer.into_data().iter().collect();
        let of_head = |head: &[f32]| {
            let rows = if num_before > 0 { &head[..keys] } else { head };
            let sum = |key: usize| rows.chunks(keys).map(|row| row[key]).sum::<f32>() / (rows.len() / keys) as f32;
            (num_before..keys).map(sum).collect()
        };
        values.chunks(queries * keys).take(num_heads).map(of_head).collect()
    };
    model.attention(src.clone(), src).encoder.into_iter().map(of_layer).collect()
}
