//! The picture that a Vision Transformer looks at, with what it looks at laid over it.

use std::fmt::Write;
use std::path::Path;

use maud::{DOCTYPE, PreEscaped, html};
use plotters::prelude::*;
use polyglow_data::tokenizer::text_of_bytes;
use polyglow_model::{ImageShape, Model, ModelShape, Pooling};

use super::Selection;
use polyglow_train::device::upload;
use polyglow_train::predict::translate::Translator;
use polyglow_train::{Result, TrainError};

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
    pub fn new(translator: &Translator<'_>, pixels: Vec<u8>) -> Result<Self> {
        let member = translator.members[0];
        let ModelShape::Vit(config) = member.model.shape() else {
            return Err(TrainError::new("the model does not read images"));
        };
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
        let over = self.over(&self.selected(selection), 2 * WIDTH);
        over.replacen('>', &format!("><defs>{}</defs>", self.picture()), 1)
    }

    /// Writes the same as points.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_png(&self, selection: Selection, path: &Path) -> Result<()> {
        let ([_, columns], ImageShape { height, width, channels }) = (self.grid, self.image);
        let (side, zoom) = (width / columns, (2 * WIDTH).div_ceil(width));
        let dark = darkness(&self.selected(selection));
        let area = BitMapBackend::new(path, ((width * zoom) as u32, (height * zoom) as u32)).into_drawing_area();
        let drawn = self.pixels.chunks(channels).enumerate().try_for_each(|(place, pixel)| {
            let (x, y) = (place % width, place / width);
            let bright = 1.0 - dark[y / side * columns + x / side];
            let [red, green, blue] = color(pixel).map(|value| (f32::from(value) * bright).round() as u8);
            let corner = |x: usize, y: usize| ((x * zoom) as i32, (y * zoom) as i32);
            area.draw(&Rectangle::new([corner(x, y), corner(x + 1, y + 1)], RGBColor(red, green, blue).filled()))
        });
        let written = drawn.and_then(|()| area.present());
        written.map_err(|error| TrainError::new(format!("cannot write `{}`: {error}", path.display())))
    }

    /// The weights of the layer and the head that are asked for.
    fn selected(&self, selection: Selection) -> Vec<f32> {
        self.head(selection.layer.unwrap_or(self.weights.len()) - 1, selection.head.map(|head| head - 1))
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
            let [red, green, blue] = color(pixel);
            // Writing to a string cannot fail.
            let _ = write!(text, "<path fill=\"#{red:02x}{green:02x}{blue:02x}\" d=\"M{x} {y}h1v1h-1z\"/>");
        }
        text + "</g>"
    }

    /// The picture, dark where nobody looks.
    fn over(&self, values: &[f32], width: usize) -> String {
        let ([_, columns], ImageShape { height: rows_of_pixels, width: of_row, .. }) = (self.grid, self.image);
        let side = of_row / columns;
        let height = width * rows_of_pixels / of_row;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {of_row} {rows_of_pixels}\"><use href=\"#picture\"/>"
        );
        for (patch, (value, dark)) in values.iter().zip(darkness(values)).enumerate() {
            let (x, y) = (patch % columns * side, patch / columns * side);
            let _ = write!(
                text,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill-opacity=\"{dark:.3}\">\
                 <title>{value:.3}</title></rect>"
            );
        }
        text + "</svg>"
    }
}

/// How dark each patch is drawn, 0 to 1: not at all where the weight is largest.
fn darkness(values: &[f32]) -> Vec<f32> {
    let most = values.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    values.iter().map(|value| 0.9 * (1.0 - value / most)).collect()
}

/// Red, green and blue of a pixel.
fn color(pixel: &[u8]) -> [u8; 3] {
    if let [red, green, blue] = pixel { [*red, *green, *blue] } else { [pixel[0]; 3] }
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

#[cfg(test)]
mod tests {
    use polyglow_model::attention::AttentionKind;

    use super::*;

    #[test]
    fn a_picture_is_darker_where_less_is_looked_at() {
        let image = ImageShape { height: 2, width: 4, channels: 1 };
        let weights = vec![vec![vec![0.5, 1.0], vec![0.0, 1.0]]];
        let attention = ImageAttention { image, pixels: [100, 100, 200, 200].repeat(2), grid: [1, 2], weights };
        let file = tempfile::Builder::new().suffix(".png").tempfile().unwrap();
        for (head, left) in [(Some(1), 55), (Some(2), 10), (None, 33)] {
            let selection = Selection { kind: AttentionKind::Encoder, layer: None, head };
            attention.write_png(selection, file.path()).unwrap();
            let picture = image::open(file.path()).unwrap().to_rgb8();
            assert_eq!(picture.dimensions(), (360, 180));
            assert_eq!((picture.get_pixel(90, 90).0, picture.get_pixel(270, 90).0), ([left; 3], [200; 3]), "{head:?}");
        }
    }
}
