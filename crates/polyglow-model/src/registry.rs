//! Architectures of other programs, which a config names as it names the built-in ones.
//!
//! A program registers an [`Architecture`] once, before it reads a config:
//!
//! ```
//! # use burn::module::Module;
//! # use burn::tensor::{Device, Int, Tensor};
//! # use polyglow_model::embedding::Embedding;
//! # use polyglow_model::init::ParamInit;
//! # use polyglow_model::linear::Linear;
//! # use polyglow_model::registry::{Architecture, register};
//! # use polyglow_model::{Generate, Inspect, Predict, Prediction, Projection, Source, Task, Text};
//! use polyglow_model::{ModelConfig, ModelError, Vocabulary};
//! use serde::{Deserialize, Serialize};
//!
//! /// Predicts the next token from the last one alone.
//! #[derive(Module, Debug)]
//! struct Bigram {
//!     embedding: Embedding,
//!     output: Linear,
//! }
//!
//! /// The table `[model.bigram]`.
//! #[derive(Serialize, Deserialize)]
//! #[serde(default, deny_unknown_fields)]
//! struct BigramConfig {
//!     width: usize,
//! }
//!
//! impl Default for BigramConfig {
//!     fn default() -> Self {
//!         Self { width: 64 }
//!     }
//! }
//!
//! impl Architecture for Bigram {
//!     type Config = BigramConfig;
//!     const TASK: Task = Task::Language;
//!
//!     fn new(config: &BigramConfig, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
//!         Self {
//!             embedding: Embedding::new(vocabulary.tgt_size, config.width, init),
//!             output: Linear::new(config.width, vocabulary.tgt_size, init),
//!         }
//!     }
//!
//!     fn d_model(config: &BigramConfig) -> usize {
//!         config.width
//!     }
//! }
//!
//! # impl Predict<Text> for Bigram {
//! #     fn predict(&self, text: Text) -> Prediction<'_> {
//! #         Projection::Own(&self.output).project(self.embedding.forward(text.ids).flatten(0, 1))
//! #     }
//! # }
//! # impl Generate for Bigram {
//! #     type Cache = ();
//! #     fn start(&self, _: Source) {}
//! #     fn advance(&self, ids: Tensor<2, Int>, (): &mut ()) -> Tensor<2> {
//! #         self.predict(Text { ids }).logits()
//! #     }
//! #     fn select((): &mut (), _: &[usize], _: &Device) {}
//! # }
//! # impl Inspect for Bigram {
//! #     type Inputs = Text;
//! # }
//! register::<Bigram>("bigram")?;
//! let config: ModelConfig = serde_json::from_str(r#"{"arch": "bigram", "bigram": {"width": 8}}"#)?;
//! assert_eq!((config.task(), config.width()), (Task::Language, 8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is then a row of the [`Table`] in which the built-in architectures stand. What else a config
//! chooses by name stands in such a table, too: schedules, optimizers and metrics, in the crates that
//! they belong to.

mod registered;
mod table;
#[cfg(test)]
mod tests;

use std::any::TypeId;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::architecture::{Generate, Inspect};
use crate::attention::AttentionKind;
use crate::config::{ArchRow, ModelConfig, Task, Vocabulary};
use crate::error::ModelError;
use crate::inputs::{Image, Inputs, Pair, Text, Words};
use crate::model::{Writes, WritesNothing, Writing};
use crate::parameter::init::ParamInit;
pub use registered::RegisteredConfig;
pub use table::{Choice, Named, Row, Table};

/// An architecture that a config can name, once it is registered.
///
/// A model is a Burn module; it implements [`Predict`](crate::Predict) and [`Inspect`] for the
/// inputs of its task, and [`Generate`] if it writes text. Its parameters are named after the
/// fields, as in `decoder.layers.0.weight`: `train.freeze` chooses by these names, and weight decay
/// leaves out the matrices whose names end in `embedding.weight` or `position.weight`.
pub trait Architecture: Inspect<Inputs: FromInputs> + Sync + 'static {
    /// Its settings: the table `[model.NAME]` of a config. With `#[serde(default,
    /// deny_unknown_fields)]`, keys may be left out, and misspelt ones are refused. An `Option` that
    /// is `None` is left out of the table, numbers are finite, and `f64` keeps their decimals where
    /// `f32` would not.
    type Config: Serialize + DeserializeOwned + Default;

    /// The task that its models are trained for.
    const TASK: Task;

    /// Builds a model, whose parameters `init` makes (call it for every parameter, in the same order
    /// each time): fresh ones, or zeros that are replaced by
    /// those of a file. Tensors belong on [`ParamInit::device`], and products in
    /// [`ParamInit::precision`].
    fn new(config: &Self::Config, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self;

    /// Returns the width of the hidden states, by which the schedule `"noam"` scales the learning
    /// rate.
    fn d_model(config: &Self::Config) -> usize;

    /// Checks the settings, before anything is built.
    ///
    /// A config is checked as soon as it is read, when nothing is known of the data: with a small
    /// shared vocabulary, which fits everything but a rule on sizes, and without images. It is
    /// checked again when the vocabulary is known.
    ///
    /// # Errors
    /// A value is out of range, or values contradict each other; the message names the key.
    fn check(_config: &Self::Config, _vocabulary: &Vocabulary) -> Result<(), ModelError> {
        Ok(())
    }

    /// Returns the number of layers and of heads that have attention weights of a kind, as
    /// [`Inspect::attention`] returns them; zeros if none. A model with attention of the kind
    /// `Cross` may be trained with `train.alignment_weight`, for which it implements
    /// [`Predict::predict_aligned`](crate::Predict::predict_aligned).
    fn attention_size(_config: &Self::Config, _kind: AttentionKind) -> (usize, usize) {
        (0, 0)
    }

    /// Estimates the number of elements that a forward pass keeps for the backward pass, from which
    /// `polyglow check` and `train.max_tokens = "auto"` estimate the memory of a batch. The default
    /// is that of six layers that keep 16 states each at every position, and of the scores of the
    /// output.
    ///
    /// # Shapes
    /// - the batch: rows, source positions, target positions
    fn activations(
        config: &Self::Config,
        vocabulary: &Vocabulary,
        [rows, src_len, tgt_len]: [usize; 3],
    ) -> u64 {
        let states = 6 * 16 * (src_len + tgt_len) * Self::d_model(config);
        let scores = 2 * tgt_len * vocabulary.tgt_size;
        (rows * (states + scores)) as u64
    }

    /// Estimates the floating-point operations of the matrix products of a forward pass, two for
    /// each multiplication. The default is that of six layers with 12 square matrices each, and of
    /// the output.
    ///
    /// # Shapes
    /// - the batch: rows, source positions, target positions
    fn forward_flops(
        config: &Self::Config,
        vocabulary: &Vocabulary,
        [rows, src_len, tgt_len]: [usize; 3],
    ) -> f64 {
        let d_model = Self::d_model(config);
        let layers = 6 * 12 * (src_len + tgt_len) * d_model * d_model;
        let output = tgt_len * d_model * vocabulary.tgt_size;
        2.0 * (rows * (layers + output)) as f64
    }
}

/// The kinds of inputs that a registered architecture may read.
pub trait FromInputs: Sized {
    /// The tasks whose inputs these are.
    const TASKS: &'static [Task];

    /// Returns the inputs as this kind; `None` if they are of another one.
    fn from_inputs(inputs: Inputs) -> Option<Self>;
}

macro_rules! from_inputs {
    ($($kind:ident: $tasks:expr;)*) => {$(
        impl FromInputs for $kind {
            const TASKS: &'static [Task] = &$tasks;

            fn from_inputs(inputs: Inputs) -> Option<Self> {
                match inputs {
                    Inputs::$kind(inputs) => Some(inputs),
                    _ => None,
                }
            }
        }
    )*};
}

from_inputs! {
    Pair: [Task::Translation];
    Text: [Task::Language, Task::Labels, Task::Masked, Task::Tags];
    Image: [Task::Images];
    Words: [Task::Words];
}

impl FromInputs for Inputs {
    // Captions are left out: the number of positions that an image takes up is known of the built-in
    // captioner alone.
    const TASKS: &'static [Task] = &[
        Task::Translation,
        Task::Language,
        Task::Words,
        Task::Labels,
        Task::Images,
        Task::Masked,
        Task::Tags,
    ];

    fn from_inputs(inputs: Inputs) -> Option<Self> {
        Some(inputs)
    }
}

/// Registers an architecture whose models write text, under the name that `model.arch` gives.
/// Registering the same again changes nothing.
///
/// # Errors
/// The name is no lower-case word, or belongs to something else already.
pub fn register<A>(name: &'static str) -> Result<(), ModelError>
where
    A: Architecture + Generate<Cache: 'static>,
{
    add::<A, Writes>(name)
}

/// Registers an architecture whose models read and write nothing: they label, tag, or find hidden
/// tokens. As [`register`] otherwise.
///
/// # Errors
/// As [`register`].
pub fn register_reader<A: Architecture>(name: &'static str) -> Result<(), ModelError> {
    if matches!(A::TASK, Task::Translation | Task::Language) {
        let reason = "models of its task write text: register it with `register`, or `Registry::architecture`";
        return Err(ArchRow::table().refused(name, reason));
    }
    add::<A, WritesNothing>(name)
}

/// Returns the settings, with their defaults, of every architecture that has a table of its own.
pub fn own_tables() -> Vec<RegisteredConfig> {
    let rows = ArchRow::table().rows().into_iter();
    rows.filter_map(|row| RegisteredConfig::default_of(Choice(row)))
        .collect()
}

/// Adds a row for an architecture whose models write text as `W` says.
fn add<A: Architecture, W: Writing<A>>(name: &'static str) -> Result<(), ModelError> {
    let table = ArchRow::table();
    if table.has_built_in(name) || ModelConfig::has_key(name) {
        return Err(table.refused(name, "is the name of something built in"));
    }
    if !A::Inputs::TASKS.contains(&A::TASK) {
        let reason = format!(
            "its models do not read the inputs of the task {:?}",
            A::TASK
        );
        return Err(table.refused(name, &reason));
    }
    let defaults = registered::check_defaults::<A>(name);
    defaults.map_err(|reason| table.refused(name, &reason))?;
    let old = table.find(name).and_then(|old| old.own_table.as_ref());
    if old.is_some_and(|old| old.model == TypeId::of::<A>()) {
        return Ok(());
    }
    table.register(Box::new(registered::row::<A, W>(name)))
}
