//! Models with 8-bit matrices, for search on the CPU; biases, norms and positions stay in f32.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use burn::tensor::Device;
//! use polyglow_model::quantization::{nearest, quantize};
//! use polyglow_model::{ModelConfig, Preset, Vocabulary, parameter};
//!
//! let vocabulary =
//!     Vocabulary { src_size: 9, tgt_size: 9, shared: true, src_pad_id: 0, tgt_pad_id: 0, max_len: 8, image: None };
//! let config = ModelConfig { preset: Some(Preset::Tiny), d_model: Some(16), ..ModelConfig::default() };
//! let model = config.shape(vocabulary)?.init(1, &Device::flex());
//! let Ok(int8) = quantize(model, |_, layout, weight| Ok::<_, Infallible>(nearest(layout, weight)));
//! // What is left as parameters are biases and norms.
//! assert!(parameter::read(&int8).iter().all(|(_, values)| values.shape().len() == 1));
//! # Ok::<(), polyglow_model::ModelError>(())
//! ```

use burn::module::Param;
use burn::tensor::Tensor;

use crate::architectures::{Captioner, Transformer, Writer};
use crate::attention::SelfAttention;
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::feed_forward::FeedForward;
use crate::linear::Linear;
use crate::model::Model;
use crate::weight::Weight;

pub use polyglow_kernels::{Int8Matrix, Int8Weights, Layout, MOST_INT8_INPUTS, has_int8_kernels};

/// Replaces every matrix of an encoder-decoder Transformer or a captioner by what `lookup` returns
/// for its name, its layout and its values; other architectures stay as they are.
///
/// The result cannot be trained; its matrices are no longer parameters.
///
/// # Errors
/// The first error of `lookup`; the model is then dropped.
pub fn quantize<E>(
    mut model: Model,
    mut lookup: impl FnMut(&str, Layout, &Param<Tensor<2>>) -> Result<Int8Matrix, E>,
) -> Result<Model, E> {
    for (name, layout, weight) in matrices(&mut model) {
        if let Weight::Float(values) = weight {
            *weight = lookup(&name, layout, values)?.into();
        }
    }
    Ok(model)
}

/// The matrix in 8 bits, each value rounded to the nearest.
///
/// # Panics
/// If it has more inputs than [`MOST_INT8_INPUTS`].
pub fn nearest(layout: Layout, weight: &Param<Tensor<2>>) -> Int8Matrix {
    let values: Vec<f32> = weight.val().into_data().iter::<f32>().collect();
    Int8Matrix::new(
        &Int8Weights::quantize(&values, weight.dims(), layout),
        weight.dims(),
        layout,
    )
}

/// The layout of the matrix of that name; `None` if the parameter is not a matrix of a product.
///
/// # Shapes
/// - `shape`: of the parameter
pub fn layout(name: &str, shape: &[usize]) -> Option<Layout> {
    match shape {
        [_, _] if name.ends_with("_embedding.weight") => Some(Layout::OutIn),
        [_, _] if !name.ends_with("_position.weight") => Some(Layout::InOut),
        _ => None,
    }
}

/// The matrices of an architecture that has some for 8 bits, each with its name and layout.
fn matrices(model: &mut Model) -> Vec<(String, Layout, &mut Weight)> {
    let (embeddings, linears): ([_; 2], Vec<_>) = match model {
        Model::Transformer(model) => {
            let Transformer {
                src_embedding,
                tgt_embedding,
                output,
                encoder,
                decoder,
                ..
            } = model;
            let embeddings = [
                ("src_embedding", Some(src_embedding)),
                ("tgt_embedding", tgt_embedding.as_mut()),
            ];
            (
                embeddings,
                of_output(output)
                    .chain(of_encoder(encoder))
                    .chain(of_decoder(decoder))
                    .collect(),
            )
        }
        Model::Captioner(model) => {
            let Captioner {
                patches,
                encoder,
                tgt_embedding,
                output,
                decoder,
                ..
            } = model;
            let mut linears = vec![("patches.projection".to_owned(), &mut patches.projection)];
            linears.extend(of_output(output).chain(of_encoder(encoder)));
            if let Writer::Transformer(decoder) = decoder {
                linears.extend(of_decoder(decoder));
            }
            (
                [("tgt_embedding", Some(tgt_embedding)), ("", None)],
                linears,
            )
        }
        _ => return Vec::new(),
    };
    let embeddings = embeddings
        .into_iter()
        .filter_map(|(name, embedding)| Some((name, &mut embedding?.weight)));
    let mut found: Vec<_> = embeddings
        .map(|(name, weight)| (format!("{name}.weight"), Layout::OutIn, weight))
        .collect();
    found.extend(
        linears
            .into_iter()
            .map(|(name, linear)| (format!("{name}.weight"), Layout::InOut, &mut linear.weight)),
    );
    found
}

fn of_output(output: &mut Option<Linear>) -> impl Iterator<Item = (String, &mut Linear)> {
    output
        .iter_mut()
        .map(|linear| ("output".to_owned(), linear))
}

fn of_encoder(encoder: &mut Encoder) -> impl Iterator<Item = (String, &mut Linear)> {
    encoder
        .layers
        .iter_mut()
        .enumerate()
        .flat_map(|(index, layer)| {
            let prefix = format!("encoder.layers.{index}");
            of_self_attention(&prefix, &mut layer.self_attention)
                .into_iter()
                .chain(of_feed_forward(&prefix, &mut layer.feed_forward))
                .collect::<Vec<_>>()
        })
}

fn of_decoder(decoder: &mut Decoder) -> impl Iterator<Item = (String, &mut Linear)> {
    decoder
        .layers
        .iter_mut()
        .enumerate()
        .flat_map(|(index, layer)| {
            let (prefix, cross) = (
                format!("decoder.layers.{index}"),
                &mut layer.cross_attention,
            );
            let crossed = [
                ("query", &mut cross.query),
                ("key_value", &mut cross.key_value),
                ("output", &mut cross.output),
            ];
            of_self_attention(&prefix, &mut layer.self_attention)
                .into_iter()
                .chain(
                    crossed
                        .map(|(kind, linear)| (format!("{prefix}.cross_attention.{kind}"), linear)),
                )
                .chain(of_feed_forward(&prefix, &mut layer.feed_forward))
                .collect::<Vec<_>>()
        })
}

fn of_self_attention<'a>(
    prefix: &str,
    attention: &'a mut SelfAttention,
) -> [(String, &'a mut Linear); 2] {
    [
        (format!("{prefix}.self_attention.qkv"), &mut attention.qkv),
        (
            format!("{prefix}.self_attention.output"),
            &mut attention.output,
        ),
    ]
}

fn of_feed_forward<'a>(
    prefix: &str,
    block: &'a mut FeedForward,
) -> impl Iterator<Item = (String, &'a mut Linear)> {
    let linears = [
        ("inner", Some(&mut block.inner)),
        ("gate", block.gate.as_mut()),
        ("outer", Some(&mut block.outer)),
    ];
    let name = |name| format!("{prefix}.feed_forward.{name}");
    linears
        .map(|(kind, linear)| linear.map(|linear| (name(kind), linear)))
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Activation, ModelConfig, Position, TieEmbeddings, Vocabulary};
    use crate::parameter;

    #[test]
    fn every_matrix_but_the_positions_is_found_under_the_name_of_its_parameter() {
        for tie_embeddings in [
            TieEmbeddings::All,
            TieEmbeddings::Decoder,
            TieEmbeddings::None,
        ] {
            let config = ModelConfig {
                activation: Activation::Swiglu,
                position: Position::Learned,
                tie_embeddings,
                d_model: Some(8),
                d_ff: Some(12),
                num_heads: Some(2),
                ..ModelConfig::default()
            };
            let vocabulary = Vocabulary {
                src_size: 9,
                tgt_size: 9,
                shared: true,
                src_pad_id: 0,
                tgt_pad_id: 0,
                max_len: 5,
                image: None,
            };
            let mut model = config
                .shape(vocabulary)
                .expect("it is valid")
                .init(1, &crate::test_device());
            let mut expected: Vec<(String, Layout)> = parameter::read(&model)
                .into_iter()
                .filter_map(|(name, data)| layout(&name, data.shape()).map(|layout| (name, layout)))
                .collect();
            let mut found: Vec<_> = matrices(&mut model)
                .into_iter()
                .map(|(name, layout, _)| (name, layout))
                .collect();
            expected.sort_by(|left, right| left.0.cmp(&right.0));
            found.sort_by(|left, right| left.0.cmp(&right.0));
            assert_eq!(found, expected);
            assert!(found.iter().all(|(name, _)| !name.contains("position")));
        }
    }
}
