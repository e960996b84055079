//! A model of any architecture: the one place where they differ for whoever trains, translates and looks inside.

mod shape;
mod states;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::Watch;
use crate::cache::DecoderCache;
use crate::config::{Head, Task, Vocabulary};
use crate::encoder_only::EncoderOnly;
use crate::lm::{LanguageModel, TextCache};
use crate::loss::LossOutput;
use crate::prediction::Prediction;
use crate::rnn::{Rnn, RnnCache};
use crate::rnn_lm::{self, RecurrentLanguageModel, States};
use crate::skip_gram::SkipGramModel;
use crate::transformer::{AttentionMaps, Transformer};
use crate::vit::Vit;

pub use shape::ModelShape;
pub use states::Side;

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

impl Model {
    /// The shape it was built with.
    pub fn shape(&self) -> ModelShape {
        match self {
            Self::Transformer(model) => ModelShape::Transformer(model.config().clone()),
            Self::Rnn(model) => ModelShape::Rnn(model.config().clone()),
            Self::Lm(model) => ModelShape::Lm(model.config().clone()),
            Self::RnnLm(model) => ModelShape::RnnLm(model.config().clone()),
            Self::SkipGram(model) => ModelShape::SkipGram(*model.config()),
            Self::Encoder(model) => ModelShape::Encoder(model.config().clone()),
            Self::Vit(model) => ModelShape::Vit(model.config().clone()),
        }
    }

    /// What the data decided about it.
    pub fn vocabulary(&self) -> Vocabulary {
        match self {
            Self::Transformer(model) => model.config().vocabulary(),
            Self::Rnn(model) => model.config().vocabulary,
            Self::Lm(model) => model.config().vocabulary(),
            Self::RnnLm(model) => model.config().vocabulary,
            Self::SkipGram(model) => model.config().vocabulary,
            Self::Encoder(_) | Self::Vit(_) => self.shape().vocabulary(),
        }
    }

    /// What it was made for.
    pub fn task(&self) -> Task {
        match self {
            Self::Transformer(_) | Self::Rnn(_) => Task::Translation,
            Self::Lm(_) | Self::RnnLm(_) => Task::Language,
            Self::SkipGram(_) => Task::Words,
            Self::Encoder(model) if model.config().head == Head::MaskedLm => Task::Masked,
            Self::Encoder(_) => Task::Labels,
            Self::Vit(_) => Task::Images,
        }
    }

    /// Whether it lives in host memory.
    pub fn on_host(&self) -> bool {
        match self {
            Self::Transformer(model) => model.on_host(),
            Self::Rnn(model) => model.on_host(),
            Self::Lm(model) => model.on_host(),
            Self::RnnLm(model) => model.on_host(),
            Self::SkipGram(model) => model.on_host(),
            Self::Encoder(model) => model.on_host(),
            Self::Vit(model) => model.on_host(),
        }
    }

    /// Scores of the next token at every target position at once (teacher forcing); of word vectors those of the two
    /// classes *drawn* and *real* for each candidate; of labels, of which each row has one (`tgt_len` 1); or of hidden tokens,
    /// at every source position (`tgt_len` is `src_len`).
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.predict(src, tgt_in).logits()
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
        self.predict(src, tgt_in).loss(targets, label_smoothing, self.vocabulary().tgt_pad_id)
    }

    /// What [`Self::forward`] makes scores of.
    fn predict(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Prediction<'_> {
        match self {
            Self::Transformer(model) => model.predict(src, tgt_in),
            Self::Rnn(model) => model.predict(src, tgt_in, None),
            Self::Lm(model) => model.predict(tgt_in, None),
            Self::RnnLm(model) => model.predict(tgt_in),
            Self::SkipGram(model) => Prediction::Scores(model.forward(src, tgt_in)),
            Self::Encoder(model) => model.predict(src, None),
            Self::Vit(model) => Prediction::Scores(model.forward(src, None)),
        }
    }

    /// What [`Self::forward`] scores tokens by, and where the highest layer looks in the source, averaged over heads; none
    /// without attention.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; the weights: `[batch, tgt_len, src_len]`
    pub fn predict_aligned(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> (Prediction<'_>, Option<Tensor<3>>) {
        match self {
            Self::Transformer(model) => {
                let (prediction, weights) = model.predict_aligned(src, tgt_in);
                (prediction, Some(weights))
            }
            Self::Rnn(model) => {
                let mut found = None;
                let prediction = model.predict(src, tgt_in, Some(&mut |weights| found = Some(weights)));
                (prediction, found)
            }
            Self::Lm(_) | Self::RnnLm(_) | Self::SkipGram(_) | Self::Encoder(_) | Self::Vit(_) => {
                (self.predict(src, tgt_in), None)
            }
        }
    }

    /// The weights of every attention in [`Self::forward`]. The query at a target position is the one that predicts the
    /// token after it.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`
    pub fn attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> AttentionMaps {
        match self {
            Self::Transformer(model) => model.attention(src, tgt_in),
            Self::Rnn(_) => {
                let (_, weights) = self.predict_aligned(src, tgt_in);
                let cross = weights.into_iter().map(|weights| weights.unsqueeze_dim(1)).collect();
                AttentionMaps { cross, ..AttentionMaps::default() }
            }
            Self::Lm(model) => {
                let mut decoder = Vec::new();
                model.forward(tgt_in, Some(&mut |_, weights| decoder.push(weights)));
                AttentionMaps { decoder, ..AttentionMaps::default() }
            }
            Self::RnnLm(_) | Self::SkipGram(_) => AttentionMaps::default(),
            Self::Encoder(model) => of_encoder(|watch| model.forward(src, watch)),
            Self::Vit(model) => of_encoder(|watch| model.forward(src, watch)),
        }
    }

    /// The weights of every layer's attention to the source in [`Self::forward`], from the lowest, averaged over heads.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch, tgt_len, src_len]` each
    pub fn cross_attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Vec<Tensor<3>> {
        match self {
            Self::Transformer(model) => model.cross_attention(src, tgt_in),
            Self::Rnn(_) => self.predict_aligned(src, tgt_in).1.into_iter().collect(),
            Self::Lm(_) | Self::RnnLm(_) | Self::SkipGram(_) | Self::Encoder(_) | Self::Vit(_) => Vec::new(),
        }
    }

    /// Reads the source, to [`Self::advance`] from.
    ///
    /// # Shapes
    /// - `src`: `[rows, src_len]`, of which a language model only looks at the number of rows
    ///
    /// # Panics
    /// It is made of word vectors, or is an encoder with a head, which write no text.
    pub fn start(&self, src: Tensor<2, Int>) -> Cache {
        match self {
            Self::Transformer(model) => Cache::Transformer(model.start(&model.encode(src))),
            Self::Rnn(model) => Cache::Rnn(model.start(src)),
            Self::Lm(model) => Cache::Lm(model.start(src.dims()[0])),
            Self::RnnLm(_) => Cache::RnnLm(None),
            Self::SkipGram(_) => panic!("word vectors predict no text"),
            Self::Encoder(_) | Self::Vit(_) => panic!("an encoder writes nothing"),
        }
    }

    /// Scores of the next token after one more token in every row; equal to the last position of [`Self::forward`].
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    ///
    /// # Panics
    /// The cache is another architecture's.
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        match (self, cache) {
            (Self::Transformer(model), Cache::Transformer(cache)) => model.advance(ids, cache),
            (Self::Rnn(model), Cache::Rnn(cache)) => model.advance(ids, cache),
            (Self::Lm(model), Cache::Lm(cache)) => model.advance(ids, cache),
            (Self::RnnLm(model), Cache::RnnLm(states)) => model.advance(ids, states),
            _ => panic!("a model goes on from its own cache"),
        }
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
