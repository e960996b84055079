//! The decoder-only Transformer, a language model (Radford et al., 2018).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::{AttentionMaps, KeyValue, Watch};
use crate::cache::indices;
use crate::config::{LmShape, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::inputs::{Source, Text};
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::mask::causal_padding_mask;
use crate::parameter::init::ParamInit;
use crate::position::PositionEmbedding;
use crate::side::Side;

/// A language model of layers with causal self-attention.
#[derive(Module, Debug)]
pub struct LanguageModel {
    /// Vectors of the tokens; the output projection too, unless that is untied.
    pub embedding: Embedding,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Positions of the tokens.
    pub position: PositionEmbedding,
    /// Layers of self-attention, as in an encoder, with a causal mask.
    pub stack: Encoder,
    dropout: Dropout,
    #[module(skip)]
    shape: LmShape,
}

/// The cache of a [`LanguageModel`]: its state between positions.
#[derive(Clone, Debug)]
pub struct TextCache {
    /// Keys and values of each layer; `None` before the first position.
    layers: Vec<Option<KeyValue>>,
    /// Positions so far.
    len: usize,
    rows: usize,
}

impl LanguageModel {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to
    /// train it). Its layers are the configured decoder layers.
    pub fn new(shape: &LmShape, seed: u64, device: &Device) -> Self {
        Self::build(shape, ParamInit::new(seed, device))
    }

    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &LmShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        let vocab_size = stack.tgt_vocab_size;
        let d_model = stack.d_model;
        let has_output = stack.tie_embeddings == TieEmbeddings::None;
        Self {
            embedding: Embedding::new(vocab_size, d_model, init),
            output: has_output.then(|| Linear::without_bias(d_model, vocab_size, init)),
            position: stack.position_embedding(init),
            stack: Encoder::new(stack, stack.num_decoder_layers, init),
            dropout: Dropout::new(stack.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &LmShape {
        &self.shape
    }

    /// As [`Predict::predict`]; calls `watch` with the attention weights of each layer.
    fn predict_watched(&self, Text { ids }: Text, watch: Watch<'_>) -> Prediction<'_> {
        let mask = causal_padding_mask(&ids, self.shape.stack.tgt_pad_id);
        let rotation = self.shape.stack.rotation(0, ids.dims()[1], &ids.device());
        let embedded = self.embed(ids);
        let hidden = self
            .stack
            .forward(embedded, &mask, rotation.as_ref(), watch);
        self.project(hidden)
    }

    /// Embeds all positions of a text: vectors of tokens plus positions, with dropout.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]`
    fn embed(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let embedded = self.embedding.forward(ids);
        self.dropout.forward(self.position.add(embedded, 0))
    }

    /// Projects hidden states to scores of tokens.
    ///
    /// # Shapes
    /// - `hidden`: `[batch, len, d_model]`
    fn project(&self, hidden: Tensor<3>) -> Prediction<'_> {
        let projection = Projection::new(self.output.as_ref(), &self.embedding);
        projection.project(hidden.flatten(0, 1))
    }
}

impl Predict<Text> for LanguageModel {
    fn predict(&self, text: Text) -> Prediction<'_> {
        self.predict_watched(text, None)
    }
}

impl Generate for LanguageModel {
    type Cache = TextCache;

    fn start(&self, src: Source) -> TextCache {
        TextCache {
            layers: vec![None; self.stack.layers.len()],
            len: 0,
            rows: src.num_rows(),
        }
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut TextCache) -> Tensor<2> {
        let rotation = self.shape.stack.rotation(cache.len, 1, &ids.device());
        // Search runs without dropout, so none is applied here.
        let embedded = self.position.add(self.embedding.forward(ids), cache.len);
        cache.len += 1;
        let hidden = self
            .stack
            .advance(embedded, rotation.as_ref(), &mut cache.layers);
        self.project(hidden).logits()
    }

    fn select(cache: &mut TextCache, rows: &[usize], device: &Device) {
        // Often every row stays in place, and nothing need be copied.
        if rows.iter().copied().eq(0..cache.rows) {
            return;
        }
        let kept = indices(rows, device);
        for layer in cache.layers.iter_mut().flatten() {
            layer.select(rows, &kept);
        }
        cache.rows = rows.len();
    }
}

impl Inspect for LanguageModel {
    type Inputs = Text;

    fn attention(&self, text: Text) -> AttentionMaps {
        let mut decoder = Vec::new();
        self.predict_watched(text, Some(&mut |_, weights| decoder.push(weights)));
        AttentionMaps {
            decoder,
            ..AttentionMaps::default()
        }
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mask = causal_padding_mask(&ids, self.shape.stack.tgt_pad_id);
        let rotation = self.shape.stack.rotation(0, ids.dims()[1], &ids.device());
        self.stack.states(self.embed(ids), &mask, rotation.as_ref())
    }

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
