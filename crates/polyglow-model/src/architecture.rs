//! The traits for architectures outside this crate.
//!
//! A model is any Burn module. To be trained it implements [`Predict`] for the kind of inputs that
//! it reads ([`crate::Pair`], [`crate::Text`], [`crate::Image`], [`crate::Words`] or a type of its
//! own). To generate text it also implements [`Generate`], and [`crate::search`] then runs on it:
//! beam search, sampling, constraints and ensembles. [`Inspect`] is for tools that inspect models;
//! all of its methods have defaults.
//!
//! The built-in architectures implement the same traits. [`crate::Model`] hides which one a config
//! file has chosen.
//!
//! ```
//! use burn::module::Module;
//! use burn::tensor::{Device, Int, Tensor};
//! use polyglow_model::embedding::Embedding;
//! use polyglow_model::init::ParamInit;
//! use polyglow_model::linear::Linear;
//! use polyglow_model::search::{Incremental, SearchConfig, Sentence, SpecialTokens, search};
//! use polyglow_model::{Generate, Predict, Prediction, Projection, Source, Text};
//!
//! /// Predicts the next token from the last one alone.
//! #[derive(Module, Debug)]
//! struct Bigram {
//!     embedding: Embedding,
//!     output: Linear,
//! }
//!
//! impl Predict<Text> for Bigram {
//!     fn predict(&self, text: Text) -> Prediction<'_> {
//!         Projection::Own(&self.output).project(self.embedding.forward(text.ids).flatten(0, 1))
//!     }
//! }
//!
//! impl Generate for Bigram {
//!     type Cache = ();
//!
//!     fn start(&self, _: Source) {}
//!
//!     fn advance(&self, ids: Tensor<2, Int>, (): &mut ()) -> Tensor<2> {
//!         self.predict(Text { ids }).logits()
//!     }
//!
//!     fn select((): &mut (), _: &[usize], _: &Device) {}
//! }
//!
//! let device = Device::flex();
//! let init = &mut ParamInit::new(1, &device);
//! let model = Bigram { embedding: Embedding::new(9, 4, init), output: Linear::new(4, 9, init) };
//! let source = Tensor::<2, Int>::zeros([1, 1], &device);
//! let mut next = Incremental::new([(&model, source)], &[]);
//! let sentence = Sentence { max_len: 5, ..Sentence::default() };
//! let special = SpecialTokens { bos: 1, eos: 2 };
//! let hypotheses = search(&mut next, &[sentence], &SearchConfig::default(), special);
//! assert!(hypotheses[0][0].ids.len() <= 5);
//! ```

use std::fmt::Debug;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::AttentionMaps;
use crate::embedding::Embedding;
use crate::inputs::Source;
use crate::loss::prediction::Prediction;
use crate::side::Side;

/// A model that can be trained on inputs of the kind `I`.
pub trait Predict<I>: Module {
    /// Returns scores of the classes, or the hidden states to compute them from, for everything
    /// that has a target: every target position of a pair, every position of a text, every image.
    ///
    /// Dropout is active if the model is on an autodiff device; see [`crate::dropout::keyed`].
    fn predict(&self, inputs: I) -> Prediction<'_>;

    /// As [`Self::predict`]; also returns the attention from target to source positions that guided
    /// alignment trains, if the model has one: `[batch, tgt_len, src_len]`, each row a
    /// distribution.
    fn predict_aligned(&self, inputs: I) -> (Prediction<'_>, Option<Tensor<3>>) {
        (self.predict(inputs), None)
    }
}

/// A model that can be searched: it generates text token by token, in several threads at a time.
pub trait Generate: Module + Sync {
    /// The state of the model between positions, for all rows together.
    type Cache: Clone + Debug + Send;

    /// Encodes the source, which has a row for each text to write. A language model only uses the
    /// number of rows.
    ///
    /// A model that reads ids takes them by [`Source::into_ids`], one that reads images by
    /// [`Source::into_pixels`].
    fn start(&self, src: Source) -> Self::Cache;

    /// Adds one token to every row, and scores the token after it; the scores are equal to those of
    /// [`Predict`] for the last position.
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Self::Cache) -> Tensor<2>;

    /// Keeps the given rows, in the given order. A row may be named several times (a beam that
    /// splits) or not at all; the next [`Self::advance`] has as many rows as are kept.
    fn select(cache: &mut Self::Cache, rows: &[usize], device: &Device);
}

/// A model that tools can inspect. The defaults are those of a model without attention, states or
/// embeddings.
pub trait Inspect: Predict<<Self as Inspect>::Inputs> {
    /// The kind of inputs that it reads.
    type Inputs;

    /// Returns the weights of every attention in [`Predict::predict`]. The query at a target
    /// position is the one that predicts the token after it.
    fn attention(&self, _: Self::Inputs) -> AttentionMaps {
        AttentionMaps::default()
    }

    /// Returns the weights of every layer's attention to the source, from the lowest layer,
    /// averaged over heads: `[batch, tgt_len, src_len]` each.
    fn cross_attention(&self, _: Self::Inputs) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// Returns the state after each layer of the encoder, or of a language model, from the lowest.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`, with padding behind; output: `[batch, len, d_model]` each
    fn states(&self, _: Tensor<2, Int>) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// Returns the embedding of a side's tokens, the same for both sides if the model has one.
    /// `None` if the model reads no tokens.
    fn embedding(&self, _: Side) -> Option<&Embedding> {
        None
    }
}
