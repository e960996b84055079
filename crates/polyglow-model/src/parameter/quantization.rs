//! Models with 8-bit matrices, for search on the CPU; biases, norms and positions stay in f32.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use burn::tensor::Device;
//! use polyglow_model::quantization::{nearest, quantize};
//! use polyglow_model::{ModelConfig, Preset, Vocabulary, parameter};
//!
//! let vocabulary = Vocabulary {
//!     src_size: 9,
//!     tgt_size: 9,
//!     shared: true,
//!     src_pad_id: 0,
//!     tgt_pad_id: 0,
//!     max_len: 8,
//!     image: None,
//! };
//! let config = ModelConfig {
//!     preset: Some(Preset::Tiny),
//!     d_model: Some(16),
//!     ..ModelConfig::default()
//! };
//! let model = config.shape(vocabulary)?.init(1, &Device::flex());
//! let lookup = |_: &str, layout, weight: &_| Ok::<_, Infallible>(nearest(layout, weight));
//! let Ok(int8) = quantize(model, lookup);
//! // The remaining parameters are biases and norms.
//! assert!(parameter::read(&int8).iter().all(|(_, values)| values.shape().len() == 1));
//! # Ok::<(), polyglow_model::ModelError>(())
//! ```

use burn::module::Param;
use burn::tensor::Tensor;

use crate::attention::SelfAttention;
use crate::decoder::Decoder;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::feed_forward::FeedForward;
use crate::linear::Linear;
use crate::model::Model;
use crate::weight::Weight;

pub use polyglow_kernels::{Int8Matrix, Int8Weights, Layout, MOST_INT8_INPUTS, has_int8_kernels};

/// Replaces every matrix of a model by the one that `lookup` returns for its name, its layout and its
/// values. Architectures without 8-bit matrices ([`ModelConfig::has_int8`]) stay as they are; an
/// encoder-decoder Transformer and a captioner have them.
///
/// [`ModelConfig::has_int8`]: crate::ModelConfig::has_int8
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

/// Quantizes a matrix to 8 bits, each value rounded to the nearest.
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

/// The layout of the matrix with this name; `None` if the parameter is not a matrix of a product.
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

/// Lists the matrices of a model; none if its architecture has no 8-bit matrices.
fn matrices(model: &mut Model) -> Vec<NamedMatrix<'_>> {
    let (model, shape) = model.parts_mut();
    shape.matrices(model)
}

/// The name of a parameter, its layout, and its matrix.
pub(crate) type NamedMatrix<'a> = (String, Layout, &'a mut Weight);

/// A list of matrices; the names are those of [`parameter`](super).
#[derive(Default)]
pub(crate) struct Matrices<'a> {
    pub(crate) list: Vec<NamedMatrix<'a>>,
}

impl<'a> Matrices<'a> {
    pub(crate) fn add_embedding(&mut self, name: &str, embedding: &'a mut Embedding) {
        let name = format!("{name}.weight");
        self.list.push((name, Layout::OutIn, &mut embedding.weight));
    }

    pub(crate) fn add_linear(&mut self, name: &str, linear: &'a mut Linear) {
        let name = format!("{name}.weight");
        self.list.push((name, Layout::InOut, &mut linear.weight));
    }

    pub(crate) fn add_encoder(&mut self, encoder: &'a mut Encoder) {
        for (index, layer) in encoder.layers.iter_mut().enumerate() {
            let prefix = format!("encoder.layers.{index}");
            self.add_self_attention(&prefix, &mut layer.self_attention);
            self.add_feed_forward(&prefix, &mut layer.feed_forward);
        }
    }

    pub(crate) fn add_decoder(&mut self, decoder: &'a mut Decoder) {
        for (index, layer) in decoder.layers.iter_mut().enumerate() {
            let prefix = format!("decoder.layers.{index}");
            self.add_self_attention(&prefix, &mut layer.self_attention);
            let cross = &mut layer.cross_attention;
            self.add_linear(&format!("{prefix}.cross_attention.query"), &mut cross.query);
            self.add_linear(
                &format!("{prefix}.cross_attention.key_value"),
                &mut cross.key_value,
            );
            self.add_linear(
                &format!("{prefix}.cross_attention.output"),
                &mut cross.output,
            );
            self.add_feed_forward(&prefix, &mut layer.feed_forward);
        }
    }

    fn add_self_attention(&mut self, prefix: &str, attention: &'a mut SelfAttention) {
        self.add_linear(&format!("{prefix}.self_attention.qkv"), &mut attention.qkv);
        self.add_linear(
            &format!("{prefix}.self_attention.output"),
            &mut attention.output,
        );
    }

    fn add_feed_forward(&mut self, prefix: &str, block: &'a mut FeedForward) {
        self.add_linear(&format!("{prefix}.feed_forward.inner"), &mut block.inner);
        if let Some(gate) = &mut block.gate {
            self.add_linear(&format!("{prefix}.feed_forward.gate"), gate);
        }
        self.add_linear(&format!("{prefix}.feed_forward.outer"), &mut block.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Activation, ModelConfig, Position, TieEmbeddings, Vocabulary};
    use crate::parameter;

    #[test]
    fn every_matrix_but_the_positions_is_listed_under_the_name_of_its_parameter() {
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
            let mut listed: Vec<_> = matrices(&mut model)
                .into_iter()
                .map(|(name, layout, _)| (name, layout))
                .collect();
            expected.sort_by(|left, right| left.0.cmp(&right.0));
            listed.sort_by(|left, right| left.0.cmp(&right.0));
            assert_eq!(listed, expected);
            assert!(listed.iter().all(|(name, _)| !name.contains("position")));
        }
    }
}
