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
//! What else a config chooses by name stands in a [`Table`], too: schedules, optimizers and metrics,
//! in the crates that they belong to.

mod model;
mod table;
mod visit;

use std::any::TypeId;
use std::fmt::{self, Debug, Formatter};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::architecture::{Generate, Inspect};
use crate::attention::AttentionKind;
use crate::config::{Arch, ModelConfig, Task, Vocabulary};
use crate::error::ModelError;
use crate::inputs::{Image, Inputs, Pair, Text, Words};
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
pub use model::{AnyCache, AnyModel};
pub(crate) use table::{read_name, unknown_name};
pub use table::{Choice, Named, Row, Table};

/// An architecture that a config can name, once it is registered.
///
/// A model is a Burn module; it implements [`Predict`](crate::Predict) and [`Inspect`] for the
/// inputs of its task, and [`Generate`] if it writes text.
pub trait Architecture: Inspect<Inputs: FromInputs> + Sync + 'static {
    /// Its settings: the table `[model.NAME]` of a config. With `#[serde(default,
    /// deny_unknown_fields)]`, keys may be left out, and misspelt ones are refused.
    type Config: Serialize + DeserializeOwned + Default;

    /// What its models are trained for.
    const TASK: Task;

    /// Builds a model, whose parameters `init` makes: fresh ones, or zeros that are replaced by
    /// those of a file. Tensors belong on [`ParamInit::device`], and products in
    /// [`ParamInit::precision`].
    fn new(config: &Self::Config, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self;

    /// Returns the width of the hidden states, by which the schedule `"noam"` scales the learning
    /// rate.
    fn d_model(config: &Self::Config) -> usize;

    /// Checks the settings, before anything is built.
    ///
    /// # Errors
    /// A value is out of range, or values contradict each other; the message names the key.
    fn check(_config: &Self::Config, _vocabulary: &Vocabulary) -> Result<(), ModelError> {
        Ok(())
    }

    /// Returns the number of layers and of heads that have attention weights of a kind, as
    /// [`Inspect::attention`] returns them; zeros if none.
    fn attention_size(_config: &Self::Config, _kind: AttentionKind) -> (usize, usize) {
        (0, 0)
    }

    /// Estimates the number of elements that a forward pass keeps for the backward pass, from which
    /// `polyglow check` and `train.max_tokens = "auto"` estimate the memory of a batch of `rows`
    /// rows with so many source and target positions. The default is that of six layers that keep
    /// 16 states each at every position, and of the scores of the output.
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
    /// each multiplication, of the same batch. The default is that of six layers with 12 square
    /// matrices each, and of the output.
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
    /// Returns the inputs as this kind; `None` if they are of another one.
    fn from_inputs(inputs: Inputs) -> Option<Self>;
}

macro_rules! from_inputs {
    ($($kind:ident)*) => {$(
        impl FromInputs for $kind {
            fn from_inputs(inputs: Inputs) -> Option<Self> {
                match inputs {
                    Inputs::$kind(inputs) => Some(inputs),
                    _ => None,
                }
            }
        }
    )*};
}

from_inputs!(Pair Text Image Words);

impl FromInputs for Inputs {
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
    add::<A>(name, AnyModel::writer::<A>)
}

/// Registers an architecture whose models read and write nothing: they label, tag, or find hidden
/// tokens. As [`register`] otherwise.
///
/// # Errors
/// As [`register`].
pub fn register_reader<A: Architecture>(name: &'static str) -> Result<(), ModelError> {
    add::<A>(name, AnyModel::reader::<A>)
}

/// The architectures that were registered. The built-in ones have keys of one section in common,
/// and so are an enum, [`Arch`].
static TABLE: Table<dyn AnyArchitecture> = Table::new("model.arch", &[]);

/// Returns all registered architectures.
pub fn all() -> Vec<Registered> {
    TABLE.rows().into_iter().map(Registered).collect()
}

/// Returns the architecture that was registered under a name.
pub fn find(name: &str) -> Option<Registered> {
    TABLE.find(name).map(Registered)
}

fn add<A: Architecture>(
    name: &'static str,
    hide: fn(A, RegisteredShape) -> AnyModel,
) -> Result<(), ModelError> {
    if Arch::BUILT_IN.iter().any(|arch| arch.name() == name) || ModelConfig::has_key(name) {
        return Err(TABLE.refused(name, "is the name of something built in"));
    }
    let old = TABLE.find(name);
    if old.is_some_and(|old| old.type_id() == TypeId::of::<A>()) {
        return Ok(());
    }
    TABLE.register(Box::new(Entry { name, hide }))
}

/// An architecture that was registered.
#[derive(Clone, Copy)]
pub struct Registered(&'static dyn AnyArchitecture);

impl Registered {
    /// Its name, as a config spells it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What its models are trained for.
    pub fn task(self) -> Task {
        self.0.task()
    }

    /// Returns its default settings.
    pub fn defaults(self) -> RegisteredConfig {
        RegisteredConfig {
            architecture: self,
            settings: self.0.defaults(),
        }
    }

    /// Returns its table of settings, with every default filled in.
    ///
    /// # Errors
    /// The message of serde about a key that is unknown, missing, or has a value of a wrong type.
    pub fn settings(self, table: Value) -> Result<RegisteredConfig, String> {
        Ok(RegisteredConfig {
            architecture: self,
            settings: self.0.settings(table)?,
        })
    }
}

impl PartialEq for Registered {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Registered {}

impl Debug for Registered {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The settings of a registered architecture, as its table in a config has them.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredConfig {
    architecture: Registered,
    settings: Value,
}

impl RegisteredConfig {
    /// The architecture.
    pub fn architecture(&self) -> Registered {
        self.architecture
    }

    /// The table `[model.NAME]`, complete.
    pub fn table(&self) -> &Value {
        &self.settings
    }

    /// The width of the hidden states.
    pub(crate) fn d_model(&self) -> usize {
        self.architecture.0.d_model(&self.settings)
    }

    /// Returns the complete shape of a model.
    ///
    /// # Errors
    /// The architecture refuses the settings.
    pub(crate) fn shape(&self, vocabulary: Vocabulary) -> Result<RegisteredShape, ModelError> {
        self.architecture.0.check(&self.settings, &vocabulary)?;
        Ok(RegisteredShape {
            config: self.clone(),
            vocabulary,
            precision: Precision::default(),
        })
    }
}

/// The complete shape of a model of a registered architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredShape {
    /// The settings.
    pub config: RegisteredConfig,
    /// The sizes and ids that the data decides.
    pub vocabulary: Vocabulary,
    /// The format of products.
    pub precision: Precision,
}

impl RegisteredShape {
    /// The name of the architecture.
    pub(crate) fn name(&self) -> &'static str {
        self.config.architecture.name()
    }

    pub(crate) fn build(&self, init: ParamInit) -> AnyModel {
        let architecture = self.config.architecture.0;
        architecture.build(self, &mut init.with_precision(self.precision))
    }

    pub(crate) fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        let RegisteredConfig {
            architecture,
            settings,
        } = &self.config;
        architecture.0.attention_size(settings, kind)
    }

    pub(crate) fn activations(&self, batch: [usize; 3]) -> u64 {
        let architecture = self.config.architecture.0;
        architecture.activations(&self.config.settings, &self.vocabulary, batch)
    }

    pub(crate) fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        let architecture = self.config.architecture.0;
        architecture.forward_flops(&self.config.settings, &self.vocabulary, batch)
    }
}

/// A row of the table: the name of an architecture, and how the type of its models is hidden.
struct Entry<A> {
    name: &'static str,
    hide: fn(A, RegisteredShape) -> AnyModel,
}

/// The functions of [`Architecture`] without its types. Settings come as
/// [`Registered::settings`] has returned them.
trait AnyArchitecture: Named {
    fn type_id(&self) -> TypeId;
    fn task(&self) -> Task;
    fn defaults(&self) -> Value;
    fn settings(&self, table: Value) -> Result<Value, String>;
    fn check(&self, settings: &Value, vocabulary: &Vocabulary) -> Result<(), ModelError>;
    fn build(&self, shape: &RegisteredShape, init: &mut ParamInit) -> AnyModel;
    fn d_model(&self, settings: &Value) -> usize;
    fn attention_size(&self, settings: &Value, kind: AttentionKind) -> (usize, usize);
    fn activations(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> u64;
    fn forward_flops(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> f64;
}

impl<A: Architecture> Named for Entry<A> {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl<A: Architecture> AnyArchitecture for Entry<A> {
    fn type_id(&self) -> TypeId {
        TypeId::of::<A>()
    }

    fn task(&self) -> Task {
        A::TASK
    }

    fn defaults(&self) -> Value {
        serde_json::to_value(A::Config::default()).expect("a config of plain values is JSON")
    }

    fn settings(&self, table: Value) -> Result<Value, String> {
        let config: A::Config = serde_json::from_value(table).map_err(|error| error.to_string())?;
        serde_json::to_value(config).map_err(|error| error.to_string())
    }

    fn check(&self, settings: &Value, vocabulary: &Vocabulary) -> Result<(), ModelError> {
        A::check(&config_of::<A>(settings), vocabulary)
    }

    fn build(&self, shape: &RegisteredShape, init: &mut ParamInit) -> AnyModel {
        let config = config_of::<A>(&shape.config.settings);
        (self.hide)(A::new(&config, &shape.vocabulary, init), shape.clone())
    }

    fn d_model(&self, settings: &Value) -> usize {
        A::d_model(&config_of::<A>(settings))
    }

    fn attention_size(&self, settings: &Value, kind: AttentionKind) -> (usize, usize) {
        A::attention_size(&config_of::<A>(settings), kind)
    }

    fn activations(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> u64 {
        A::activations(&config_of::<A>(settings), vocabulary, batch)
    }

    fn forward_flops(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> f64 {
        A::forward_flops(&config_of::<A>(settings), vocabulary, batch)
    }
}

/// Returns settings as their own type.
fn config_of<A: Architecture>(settings: &Value) -> A::Config {
    // They were written from this type, so they read back.
    A::Config::deserialize(settings).expect("a config reads what it has written")
}
