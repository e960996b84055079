//! The traits that open the crate to an architecture of one's own.
//!
//! A model is any Burn module. To be trained it implements [`Predict`] for the kind of inputs that
//! it reads ([`crate::Pair`], [`crate::Text`], [`crate::Image`], [`crate::Words`] or a type of its
//! own). To write text it also implements [`Generate`], and [`crate::search`] then runs on it: beam
//! search, sampling, constraints and ensembles. [`Inspect`] is for tools that look inside; all of
//! its methods have defaults.
//!
//! The built-in architectures implement the same traits. [`crate::Model`] is the choice among them
//! that a config file makes.
//!
//! ```
//! use burn::module::Module;
//! use burn::tensor::{Device, Int, Tensor};
//! use polyglow_model::embedding::Embedding;
//! use polyglow_model::init::ParamInit;
//! use polyglow_model::linear::Linear;
//! use polyglow_model::search::{Incremental, SpecialTokens, SearchConfig, Sentence, search};
//! use polyglow_model::{Generate, Predict, Prediction, Projection, Text};
//!
//! /// The next token from the last one alone.
//! #[derive(Module, Debug)]
//! struct Bigram {
//!     embedding: Embedding,
//!     output: Linear,
//! }
//!
//! impl Predict<Text> for Bigram {
//!     fn predict(&self, text: Text) -> Prediction<'_> {
//!         Projection::Own(&self.output).of(self.embedding.forward(text.ids).flatten(0, 1))
//!     }
//! }
//!
//! impl Generate for Bigram {
//!     type Cache = ();
//!
//!     fn start(&self, _: Tensor<2, Int>) {}
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
//! let mut next = Incremental::new([(&model, Tensor::zeros([1, 1], &device))], &[]);
//! let sentence = Sentence { max_len: 5, ..Sentence::default() };
//! let found = search(&mut next, &[sentence], &SearchConfig::default(), SpecialTokens { bos: 1, eos: 2 });
//! assert!(found[0][0].ids.len() <= 5);
//! ```

use std::fmt::Debug;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::AttentionMaps;
use crate::embedding::Embedding;
use crate::loss::prediction::Prediction;
use crate::side::Side;

/// What a model must offer to be trained on inputs of one kind.
pub trait Predict<I>: Module {
    /// Scores of the classes, or the hidden states that give them, for every place that has a
    /// target: every target position of a pair, every position of a text, one per image.
    ///
    /// Dropout is active if the model is on an autodiff device; see [`crate::dropout::keyed`].
    fn predict(&self, inputs: I) -> Prediction<'_>;

    /// As [`Self::predict`], together with the attention from target to source positions that
    /// guided alignment trains, if the model has one: `[batch, tgt_len, src_len]`, each row a
    /// distribution.
    fn predict_aligned(&self, inputs: I) -> (Prediction<'_>, Option<Tensor<3>>) {
        (self.predict(inputs), None)
    }
}

/// What a model must offer to be searched: to write text one token at a time, in several threads at
/// a time.
pub trait Generate: Module + Sync {
    /// What the model keeps between positions, for all rows together.
    type Cache: Clone + Debug + Send;

    /// Reads the source. A language model only uses the number of rows.
    ///
    /// # Shapes
    /// - `src`: `[rows, src_len]`, with padding behind
    fn start(&self, src: Tensor<2, Int>) -> Self::Cache;

    /// Scores of the next token after one more token in every row; equal to what [`Predict`] gives
    /// for the last position.
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Self::Cache) -> Tensor<2>;

    /// Keeps the given rows, in the given order. A row may be named several times (a beam that
    /// splits) or not at all; the next [`Self::advance`] has as many rows as are kept.
    fn select(cache: &mut Self::Cache, rows: &[usize], device: &Device);
}

/// What a model may offer to tools that look inside. A default is the answer of a model that has no
/// such thing.
pub trait Inspect: Predict<<Self as Inspect>::Inputs> {
    /// The kind of inputs that it reads.
    type Inputs;

    /// The weights of every attention in [`Predict::predict`]. The query at a target position is
    /// the one that predicts the token after it.
    fn attention(&self, _: Self::Inputs) -> AttentionMaps {
        AttentionMaps::default()
    }

    /// The weights of every layer's attention to the source, from the lowest layer, averaged over
    /// heads: `[batch, tgt_len, src_len]` each.
    fn cross_attention(&self, _: Self::Inputs) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// The state after each layer that reads, from the lowest.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`, with padding behind; output: `[batch, len, d_model]` each
    fn states(&self, _: Tensor<2, Int>) -> Vec<Tensor<3>> {
        Vec::new()
    }

    /// The vectors of a side's tokens; the same for both sides if the model has one. `None` if it
    /// does not read tokens.
    fn embedding(&self, _: Side) -> Option<&Embedding> {
        None
    }
}
