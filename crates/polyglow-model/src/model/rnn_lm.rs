//! The recurrent language model on one screen: the network that predicts the next letter (Mikolov et al., 2010).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::{Architecture, Cache, Side};
use crate::cache::indices;
use crate::config::{ModelShape, RnnConfig, RnnLmConfig, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::prediction::{Prediction, Projection};
use crate::recurrent::{Direction, Recurrent, State};

/// Recurrent layers that read a text from its beginning.
#[derive(Module, Debug)]
pub struct RecurrentLanguageModel {
    /// Vectors of the tokens; the output projection too, unless that is untied.
    pub embedding: Embedding,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// From the lowest upwards.
    pub layers: Vec<Recurrent>,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: RnnLmConfig,
}

/// One state a layer; nothing before the first position.
pub type States = Option<Vec<State>>;

impl RecurrentLanguageModel {
    /// A model with initial values of one kind. Its layers are the configured decoder layers.
    pub(crate) fn build(config: &RnnLmConfig, init: ParamInit) -> Self {
        let stack = &config.stack;
        let init = &mut init.with_precision(stack.precision);
        let RnnConfig { vocabulary, d_model, cell, .. } = *stack;
        let untied = stack.tie_embeddings == TieEmbeddings::None;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, d_model, init),
            output: untied.then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
            layers: (0..stack.num_decoder_layers).map(|_| Recurrent::new(cell, d_model, d_model, init)).collect(),
            dropout: Dropout::new(stack.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// The state after each layer, from the lowest.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]` each
    pub fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mut hidden = self.dropout.forward(self.embedding.forward(ids));
        let read = |layer: &Recurrent| {
            hidden = self.dropout.forward(layer.run(hidden.clone(), None, None, Direction::Forward));
            hidden.clone()
        };
        self.layers.iter().map(read).collect()
    }

    /// Scores of the next token after one more token in every row; equal to the last position of all at once.
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, vocab_size]`
    pub fn advance(&self, ids: Tensor<2, Int>, states: &mut States) -> Tensor<2> {
        let mut hidden: Tensor<2> = self.embedding.forward(ids).squeeze_dim(1);
        let (rows, device) = (hidden.dims()[0], hidden.device());
        let begin = || self.layers.iter().map(|layer| layer.begin(rows, &device)).collect();
        let states = states.get_or_insert_with(begin);
        for (layer, state) in self.layers.iter().zip(states) {
            *state = layer.step(layer.input.rows(hidden), state);
            hidden = state.hidden();
        }
        self.projection().of(hidden).logits()
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), &self.embedding)
    }
}

impl Architecture for RecurrentLanguageModel {
    fn shape(&self) -> ModelShape {
        ModelShape::RnnLm(self.config.clone())
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
        let states = self.states(ids);
        self.projection().of(states.last().expect("a model has at least one layer").clone().flatten(0, 1))
    }

    fn start(&self, _: Tensor<2, Int>) -> Cache {
        Cache::RnnLm(None)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let Cache::RnnLm(cache) = cache else { panic!("a model goes on from its own cache") };
        self.advance(ids, cache)
    }
}

/// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
pub(crate) fn select(states: &mut States, rows: &[usize], device: &Device) {
    let rows = indices(rows, device);
    states.iter_mut().flatten().for_each(|state| *state = state.select(&rows));
}
