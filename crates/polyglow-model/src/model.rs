//! Models of all architectures: the one place where they differ for whoever trains, translates and looks inside.
//!
//! An architecture is a file in `model/` that implements [`Architecture`], and a variant of [`Model`].

mod encoder_only;
mod lm;
mod rnn;
mod rnn_lm;
mod skip_gram;
mod states;
mod transformer;
mod vit;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::Watch;
use crate::cache::DecoderCache;
use crate::config::{ModelShape, Task, Vocabulary};
use crate::embedding::Embedding;
use crate::loss::LossOutput;
use crate::prediction::Prediction;

pub use encoder_only::EncoderOnly;
pub use lm::{LanguageModel, TextCache};
pub use rnn::{Rnn, RnnCache};
pub use rnn_lm::{RecurrentLanguageModel, States};
pub use skip_gram::SkipGramModel;
pub use states::Side;
pub use transformer::{AttentionMaps, Memory, Transformer};
pub use vit::Vit;

/// A model of any architecture, from ids to scores of the next token.
#[derive(Module, Debug)]
pub enum Model {
    /// The encoder-decoder Transformer.
    Transformer(Transformer),
    /// The recurrent encoder-decoder.
    Rnn(Rnn),
    /// The decoder-only Transformer, which takes no notice of a source.
    Lm(LanguageModel),
    /// The recurrent language model, which takes no notice of a source.
    RnnLm(RecurrentLanguageModel),
    /// Word vectors, whose sources are words and whose targets are those that may stand beside them.
    SkipGram(SkipGramModel),
    /// The encoder of text with a head, which takes no notice of a target.
    Encoder(EncoderOnly),
    /// The Vision Transformer, which takes no notice of a target.
    Vit(Vit),
}

/// What [`Model::advance`] keeps between positions.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each member of an ensemble")]
pub enum Cache {
    /// Keys and values.
    Transformer(DecoderCache),
    /// States.
    Rnn(RnnCache),
    /// Keys and values of a text.
    Lm(TextCache),
    /// States of a text.
    RnnLm(States),
}

/// What an architecture has to offer. A default is the answer of one that has no such thing.
pub(crate) trait Architecture {
    /// The shape it was built with.
    fn shape(&self) -> ModelShape;

    /// Whether it lives in host memory.
    fn on_host(&self) -> bool;

    /// As [`Model::embedding`].
    fn embedding(&self, side: Side) -> &Embedding;

    /// The states of [`Model::states`], without the vectors before the lowest layer.
    fn states(&self, _: Tensor<2, Int>) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// What [`Model::forward`] makes scores of.
    fn predict(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Prediction<'_>;

    /// As [`Model::predict_aligned`].
    fn predict_aligned(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> (Prediction<'_>, Option<Tensor<3>>) {
        (self.predict(src, tgt_in), None)
    }

    /// As [`Model::attention`].
    fn attention(&self, _: Tensor<2, Int>, _: Tensor<2, Int>) -> AttentionMaps {
        AttentionMaps::default()
    }

    /// As [`Model::cross_attention`].
    fn cross_attention(&self, _: Tensor<2, Int>, _: Tensor<2, Int>) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// As [`Model::start`].
    fn start(&self, _: Tensor<2, Int>) -> Cache {
        panic!("this architecture writes no text")
    }

    /// As [`Model::advance`].
    fn advance(&self, _: Tensor<2, Int>, _: &mut Cache) -> Tensor<2> {
        panic!("this architecture writes no text")
    }
}

impl Model {
    fn architecture(&self) -> &dyn Architecture {
        match self {
            Self::Transformer(model) => model,
            Self::Rnn(model) => model,
            Self::Lm(model) => model,
            Self::RnnLm(model) => model,
            Self::SkipGram(model) => model,
            Self::Encoder(model) => model,
            Self::Vit(model) => model,
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> ModelShape {
        self.architecture().shape()
    }

    /// What the data decided about it.
    pub fn vocabulary(&self) -> Vocabulary {
        self.shape().vocabulary()
    }

    /// What it was made for.
    pub fn task(&self) -> Task {
        self.shape().task()
    }

    /// Whether it lives in host memory.
    pub fn on_host(&self) -> bool {
        self.architecture().on_host()
    }

    /// Scores of the next token at every target position at once (teacher forcing); of word vectors those of the two
    /// classes *drawn* and *real* for each candidate; of labels, of which each row has one (`tgt_len` 1); or of hidden tokens,
    /// at every source position (`tgt_len` is `src_len`).
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.architecture().predict(src, tgt_in).logits()
    }

    /// Cross-entropy of [`Self::forward`], for less memory.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; `targets`: `[batch * tgt_len]`
    pub fn loss(
        &self,
        src: Tensor<2, Int>,
        tgt_in: Tensor<2, Int>,
        targets: Tensor<1, Int>,
        label_smoothing: f64,
    ) -> LossOutput {
        self.architecture().predict(src, tgt_in).loss(targets, label_smoothing, self.vocabulary().tgt_pad_id)
    }

    /// What [`Self::forward`] scores tokens by, and where the highest layer looks in the source, averaged over heads; none
    /// without attention.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; the weights: `[batch, tgt_len, src_len]`
    pub fn predict_aligned(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> (Prediction<'_>, Option<Tensor<3>>) {
        self.architecture().predict_aligned(src, tgt_in)
    }

    /// The weights of every attention in [`Self::forward`]. The query at a target position is the one that predicts the
    /// token after it.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`
    pub fn attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> AttentionMaps {
        self.architecture().attention(src, tgt_in)
    }

    /// The weights of every layer's attention to the source in [`Self::forward`], from the lowest, averaged over heads.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch, tgt_len, src_len]` each
    pub fn cross_attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.architecture().cross_attention(src, tgt_in)
    }

    /// Reads the source, to [`Self::advance`] from.
    ///
    /// # Shapes
    /// - `src`: `[rows, src_len]`, of which a language model only looks at the number of rows
    ///
    /// # Panics
    /// It is for word vectors, labels or hidden tokens, and writes no text.
    pub fn start(&self, src: Tensor<2, Int>) -> Cache {
        self.architecture().start(src)
    }

    /// Scores of the next token after one more token in every row; equal to the last position of [`Self::forward`].
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    ///
    /// # Panics
    /// The cache is another architecture's, or it writes no text.
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        self.architecture().advance(ids, cache)
    }
}

/// The weights that an encoder shows while it runs.
fn of_encoder(run: impl FnOnce(Watch<'_>) -> Tensor<2>) -> AttentionMaps {
    let mut encoder = Vec::new();
    run(Some(&mut |_, weights| encoder.push(weights)));
    AttentionMaps { encoder, ..AttentionMaps::default() }
}

impl Cache {
    /// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
    pub fn select(&mut self, rows: &[usize], device: &Device) {
        match self {
            Self::Transformer(cache) => cache.select(rows),
            Self::Rnn(cache) => cache.select(rows),
            Self::Lm(cache) => cache.select(rows, device),
            Self::RnnLm(states) => rnn_lm::select(states, rows, device),
        }
    }
}
