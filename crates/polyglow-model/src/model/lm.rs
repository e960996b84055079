//! The decoder-only Transformer on one screen: what comes next in a text (Radford et al., 2018).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::{Architecture, AttentionMaps, Cache, Side};
use crate::attention::Watch;
use crate::cache::{KeyValue, indices};
use crate::config::{LmConfig, ModelShape, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::mask::causal_padding_mask;
use crate::position::{PositionEmbedding, Rotation};
use crate::prediction::{Prediction, Projection};

/// A language model: layers of self-attention that see the past only.
#[derive(Module, Debug)]
pub struct LanguageModel {
    /// Vectors of the tokens; the output projection too, unless that is untied.
    pub embedding: Embedding,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Where a token stands.
    pub position: PositionEmbedding,
    /// Layers as those of an encoder, under a mask that hides the future.
    pub stack: Encoder,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: LmConfig,
}

/// Everything that [`LanguageModel::advance`] keeps between positions.
#[derive(Clone, Debug)]
pub struct TextCache {
    /// Keys and values of each layer; nothing before the first position.
    layers: Vec<Option<KeyValue>>,
    /// Positions so far.
    len: usize,
    rows: usize,
}

impl LanguageModel {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to train it). Its layers are
    /// the configured decoder layers.
    pub fn new(config: &LmConfig, seed: u64, device: &Device) -> Self {
        Self::build(config, ParamInit::new(seed, device))
    }

    /// The same with other initial values.
    pub(crate) fn build(config: &LmConfig, init: ParamInit) -> Self {
        let stack = &config.stack;
        let init = &mut init.with_precision(stack.precision);
        let (vocab_size, d_model) = (stack.tgt_vocab_size, stack.d_model);
        let untied = stack.tie_embeddings == TieEmbeddings::None;
        Self {
            embedding: Embedding::new(vocab_size, d_model, init),
            output: untied.then(|| Linear::without_bias(d_model, vocab_size, init)),
            position: PositionEmbedding::new(stack, init),
            stack: Encoder::new(stack, stack.num_decoder_layers, init),
            dropout: Dropout::new(stack.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// Scores of the next token at every position at once; shows the attention weights to `watch`.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch * len, vocab_size]`
    pub fn forward(&self, ids: Tensor<2, Int>, watch: Watch<'_>) -> Tensor<2> {
        self.predict_watched(ids, watch).logits()
    }

    /// What [`Self::forward`] scores tokens by.
    fn predict_watched(&self, ids: Tensor<2, Int>, watch: Watch<'_>) -> Prediction<'_> {
        let mask = causal_padding_mask(&ids, self.config.stack.tgt_pad_id);
        let rotation = Rotation::new(&self.config.stack, 0, ids.dims()[1], &ids.device());
        self.projected(self.stack.forward(self.embed(ids), &mask, rotation.as_ref(), watch))
    }

    /// The state after each layer, from the lowest.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]` each
    pub fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mask = causal_padding_mask(&ids, self.config.stack.tgt_pad_id);
        let rotation = Rotation::new(&self.config.stack, 0, ids.dims()[1], &ids.device());
        self.stack.states(self.embed(ids), &mask, rotation.as_ref())
    }

    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]`
    fn embed(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.dropout.forward(self.position.add(self.embedding.forward(ids), 0))
    }

    /// An empty cache to [`Self::advance`] from.
    pub fn start(&self, rows: usize) -> TextCache {
        TextCache { layers: vec![None; self.stack.layers.len()], len: 0, rows }
    }

    /// Scores of the next token after one more token in every row; equal to the last position of [`Self::forward`].
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, vocab_size]`
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut TextCache) -> Tensor<2> {
        let rotation = Rotation::new(&self.config.stack, cache.len, 1, &ids.device());
        let embedded = self.position.add(self.embedding.forward(ids), cache.len);
        cache.len += 1;
        self.projected(self.stack.advance(embedded, rotation.as_ref(), &mut cache.layers)).logits()
    }

    /// # Shapes
    /// - `hidden`: `[batch, len, d_model]`
    fn projected(&self, hidden: Tensor<3>) -> Prediction<'_> {
        Projection::new(self.output.as_ref(), &self.embedding).of(hidden.flatten(0, 1))
    }
}

impl Architecture for LanguageModel {
    fn shape(&self) -> ModelShape {
        ModelShape::Lm(self.config.clone())
    }

    fn on_host(&self) -> bool {
        self.on_host
    }

    fn embedding(&self, _: Side) -> &Embedding {
        &self.embedding
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.states(ids)
    }

    fn predict(&self, _: Tensor<2, Int>, ids: Tensor<2, Int>) -> Prediction<'_> {
        self.predict_watched(ids, None)
    }

    fn attention(&self, _: Tensor<2, Int>, ids: Tensor<2, Int>) -> AttentionMaps {
        let mut decoder = Vec::new();
        self.predict_watched(ids, Some(&mut |_, weights| decoder.push(weights)));
        AttentionMaps { decoder, ..AttentionMaps::default() }
    }

    fn start(&self, src: Tensor<2, Int>) -> Cache {
        Cache::Lm(self.start(src.dims()[0]))
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let Cache::Lm(cache) = cache else { panic!("a model goes on from its own cache") };
        self.advance(ids, cache)
    }
}

impl TextCache {
    /// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
    pub fn select(&mut self, rows: &[usize], device: &Device) {
        if rows.iter().copied().eq(0..self.rows) {
            return;
        }
        let kept = indices(rows, device);
        self.layers.iter_mut().flatten().for_each(|layer| layer.select(&kept));
        self.rows = rows.len();
    }
}
