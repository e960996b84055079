//! The traits of [`crate::architecture`] for [`Model`]: each call goes to the variant's
//! architecture.

use burn::tensor::{Device, Int, Tensor};

use super::{Cache, Model};
use crate::architecture::{Generate, Inspect, Predict};
use crate::architectures::{Captioner, LanguageModel, RecurrentLanguageModel, Rnn, Transformer};
use crate::attention::AttentionMaps;
use crate::embedding::Embedding;
use crate::inputs::{Inputs, Source};
use crate::loss::prediction::Prediction;
use crate::registry::AnyModel;
use crate::side::Side;

impl<I: Into<Inputs>> Predict<I> for Model {
    /// # Panics
    /// If the architecture does not read inputs of this kind; [`Model`] says which it reads.
    fn predict(&self, inputs: I) -> Prediction<'_> {
        match (self, inputs.into()) {
            (Self::Transformer(model), Inputs::Pair(pair)) => model.predict(pair),
            (Self::Rnn(model), Inputs::Pair(pair)) => model.predict(pair),
            (Self::Lm(model), Inputs::Text(text)) => model.predict(text),
            (Self::RnnLm(model), Inputs::Text(text)) => model.predict(text),
            (Self::SkipGram(model), Inputs::Words(words)) => model.predict(words),
            (Self::Encoder(model), Inputs::Text(text)) => model.predict(text),
            (Self::Vit(model), Inputs::Image(image)) => model.predict(image),
            (Self::Captioner(model), Inputs::Pair(pair)) => model.predict(pair),
            (Self::Registered(model), inputs) => model.predict(inputs),
            (model, inputs) => panic!(
                "a model for {:?} does not read {}",
                model.task(),
                inputs.kind()
            ),
        }
    }

    /// # Panics
    /// As [`Self::predict`].
    fn predict_aligned(&self, inputs: I) -> (Prediction<'_>, Option<Tensor<3>>) {
        match (self, inputs.into()) {
            (Self::Transformer(model), Inputs::Pair(pair)) => model.predict_aligned(pair),
            (Self::Rnn(model), Inputs::Pair(pair)) => model.predict_aligned(pair),
            (Self::Registered(model), inputs) => model.predict_aligned(inputs),
            (model, inputs) => (model.predict(inputs), None),
        }
    }
}

impl Generate for Model {
    type Cache = Cache;

    /// # Panics
    /// If it is for word vectors, labels or masked tokens, and generates no text; or reads another
    /// kind of source.
    fn start(&self, src: Source) -> Cache {
        match self {
            Self::Transformer(model) => Cache::Transformer(model.start(src)),
            Self::Rnn(model) => Cache::Rnn(model.start(src)),
            Self::Lm(model) => Cache::Lm(model.start(src)),
            Self::RnnLm(model) => Cache::RnnLm(model.start(src)),
            Self::Captioner(model) => Cache::Captioner(model.start(src)),
            Self::Registered(model) => Cache::Registered(model.start(src)),
            Self::SkipGram(_) | Self::Encoder(_) | Self::Vit(_) => {
                panic!("a model for the task {:?} writes no text", self.task())
            }
        }
    }

    /// # Panics
    /// If the cache belongs to another architecture.
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        match (self, cache) {
            (Self::Transformer(model), Cache::Transformer(cache)) => model.advance(ids, cache),
            (Self::Rnn(model), Cache::Rnn(cache)) => model.advance(ids, cache),
            (Self::Lm(model), Cache::Lm(cache)) => model.advance(ids, cache),
            (Self::RnnLm(model), Cache::RnnLm(cache)) => model.advance(ids, cache),
            (Self::Captioner(model), Cache::Captioner(cache)) => model.advance(ids, cache),
            (Self::Registered(model), Cache::Registered(cache)) => model.advance(ids, cache),
            _ => panic!("a model needs a cache of its own"),
        }
    }

    fn select(cache: &mut Cache, rows: &[usize], device: &Device) {
        match cache {
            Cache::Transformer(cache) => Transformer::select(cache, rows, device),
            Cache::Rnn(cache) => Rnn::select(cache, rows, device),
            Cache::Lm(cache) => LanguageModel::select(cache, rows, device),
            Cache::RnnLm(states) => RecurrentLanguageModel::select(states, rows, device),
            Cache::Captioner(cache) => Captioner::select(cache, rows, device),
            Cache::Registered(cache) => AnyModel::select(cache, rows, device),
        }
    }
}

impl Inspect for Model {
    type Inputs = Inputs;

    fn attention(&self, inputs: Inputs) -> AttentionMaps {
        match (self, inputs) {
            (Self::Transformer(model), Inputs::Pair(pair)) => model.attention(pair),
            (Self::Rnn(model), Inputs::Pair(pair)) => model.attention(pair),
            (Self::Lm(model), Inputs::Text(text)) => model.attention(text),
            (Self::Encoder(model), Inputs::Text(text)) => model.attention(text),
            (Self::Vit(model), Inputs::Image(image)) => model.attention(image),
            (Self::Captioner(model), Inputs::Pair(pair)) => model.attention(pair),
            (Self::Registered(model), inputs) => model.attention(inputs),
            _ => AttentionMaps::default(),
        }
    }

    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>> {
        match (self, inputs) {
            (Self::Transformer(model), Inputs::Pair(pair)) => model.cross_attention(pair),
            (Self::Rnn(model), Inputs::Pair(pair)) => model.cross_attention(pair),
            (Self::Captioner(model), Inputs::Pair(pair)) => model.cross_attention(pair),
            (Self::Registered(model), inputs) => model.cross_attention(inputs),
            _ => Vec::new(),
        }
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        match self {
            Self::Transformer(model) => model.states(ids),
            Self::Rnn(model) => model.states(ids),
            Self::Lm(model) => model.states(ids),
            Self::RnnLm(model) => model.states(ids),
            Self::Encoder(model) => model.states(ids),
            Self::Registered(model) => model.states(ids),
            Self::SkipGram(_) | Self::Vit(_) | Self::Captioner(_) => Vec::new(),
        }
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        match self {
            Self::Transformer(model) => model.embedding(side),
            Self::Rnn(model) => model.embedding(side),
            Self::Lm(model) => Some(&model.embedding),
            Self::RnnLm(model) => Some(&model.embedding),
            Self::SkipGram(model) => Some(&model.embedding),
            Self::Encoder(model) => Some(&model.embedding),
            Self::Captioner(model) => model.embedding(side),
            Self::Registered(model) => model.embedding(side),
            Self::Vit(_) => None,
        }
    }
}
