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
pub use table::{Choice, Named, Row, Table};
pub(crate) use table::{read_name, unknown_name};

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

    /// What its models are trained for.
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
    add::<A>(name, AnyModel::writer::<A>)
}

/// Registers an architecture whose models read and write nothing: they label, tag, or find hidden
/// tokens. As [`register`] otherwise.
///
/// # Errors
/// As [`register`].
pub fn register_reader<A: Architecture>(name: &'static str) -> Result<(), ModelError> {
    if matches!(A::TASK, Task::Translation | Task::Language) {
        let reason = "models of its task write text: register it with `register`, or `Registry::architecture`";
        return Err(TABLE.refused(name, reason));
    }
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
    if !A::Inputs::TASKS.contains(&A::TASK) {
        let reason = format!(
            "its models do not read the inputs of the task {:?}",
            A::TASK
        );
        return Err(TABLE.refused(name, &reason));
    }
    let default = settings_of(&A::Config::default());
    let reads_back = default.and_then(|default| {
        let again = settings_of(&read_config::<A>(default.clone())?)?;
        Ok(again == default)
    });
    if reads_back != Ok(true) {
        let reason = match reads_back {
            Err(error) => format!("its default settings do not read back: `model.{name}{error}"),
            Ok(_) => "its default settings do not read back as they were".to_owned(),
        };
        return Err(TABLE.refused(name, &reason));
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
    /// Returns its name, as a config spells it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns what its models are trained for.
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
    /// A key is unknown or missing, or its value has a wrong type; the message begins with the key.
    pub fn settings(self, table: Value) -> Result<RegisteredConfig, String> {
        Ok(RegisteredConfig {
            architecture: self,
            settings: self
                .0
                .settings(table)
                .map_err(|error| format!("`model.{}{error}", self.name()))?,
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
    /// Returns the architecture.
    pub fn architecture(&self) -> Registered {
        self.architecture
    }

    /// Returns the table `[model.NAME]`, with every default filled in.
    pub fn table(&self) -> &Value {
        &self.settings
    }

    /// Whether a decoder attends to a source.
    pub(crate) fn attends_to_source(&self) -> bool {
        let size = self
            .architecture
            .0
            .attention_size(&self.settings, AttentionKind::Cross);
        size.0 > 0
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
        settings_of(&A::Config::default()).expect("registration has tried it")
    }

    fn settings(&self, table: Value) -> Result<Value, String> {
        if has_null(&table) {
            return Err("`: a number is not finite".to_owned());
        }
        settings_of(&read_config::<A>(table)?)
    }

    fn check(&self, settings: &Value, vocabulary: &Vocabulary) -> Result<(), ModelError> {
        A::check(&typed::<A>(settings), vocabulary)
    }

    fn build(&self, shape: &RegisteredShape, init: &mut ParamInit) -> AnyModel {
        let config = typed::<A>(&shape.config.settings);
        (self.hide)(A::new(&config, &shape.vocabulary, init), shape.clone())
    }

    fn d_model(&self, settings: &Value) -> usize {
        A::d_model(&typed::<A>(settings))
    }

    fn attention_size(&self, settings: &Value, kind: AttentionKind) -> (usize, usize) {
        A::attention_size(&typed::<A>(settings), kind)
    }

    fn activations(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> u64 {
        A::activations(&typed::<A>(settings), vocabulary, batch)
    }

    fn forward_flops(&self, settings: &Value, vocabulary: &Vocabulary, batch: [usize; 3]) -> f64 {
        A::forward_flops(&typed::<A>(settings), vocabulary, batch)
    }
}

/// Reads a table as the settings of an architecture.
///
/// # Errors
/// The message continues a name: the rest of the key, a backtick, and what is wrong with it.
fn read_config<A: Architecture>(table: Value) -> Result<A::Config, String> {
    serde_path_to_error::deserialize(table).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => format!("`: {}", error.inner()),
            key => format!(".{key}`: {}", error.inner()),
        }
    })
}

/// Returns settings as a table, without keys that have no value.
fn settings_of(config: &impl Serialize) -> Result<Value, String> {
    let mut table = serde_json::to_value(config).map_err(|error| format!("`: {error}"))?;
    remove_nulls(&mut table);
    Ok(table)
}

/// Removes the keys without a value, which TOML cannot write.
fn remove_nulls(value: &mut Value) {
    if let Value::Object(keys) = value {
        keys.retain(|_, value| !value.is_null());
        keys.values_mut().for_each(remove_nulls);
    }
}

/// Whether there is a null, which a table of TOML becomes for numbers that JSON does not have.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(keys) => keys.values().any(has_null),
        _ => false,
    }
}

/// Returns settings as their own type.
fn typed<A: Architecture>(settings: &Value) -> A::Config {
    // Registration has made sure that what such a config writes reads back.
    A::Config::deserialize(settings).expect("a config reads what it has written")
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::architecture::Predict;
    use crate::embedding::Embedding;
    use crate::linear::Linear;
    use crate::loss::prediction::{Prediction, Projection};
    use crate::parameter;

    /// Labels a text by the mean of its embeddings.
    #[derive(Module, Debug)]
    struct Bag {
        embedding: Embedding,
        output: Linear,
    }

    #[derive(Debug, Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct BagConfig {
        width: Option<usize>,
        scale: f64,
    }

    impl Predict<Text> for Bag {
        fn predict(&self, text: Text) -> Prediction<'_> {
            let states: Tensor<3> = self.embedding.forward(text.ids);
            Projection::Own(&self.output).project(states.mean_dim(1).squeeze_dim(1))
        }
    }

    impl Inspect for Bag {
        type Inputs = Text;
    }

    impl Architecture for Bag {
        type Config = BagConfig;
        const TASK: Task = Task::Labels;

        fn new(config: &BagConfig, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
            let width = Self::d_model(config);
            Self {
                embedding: Embedding::new(vocabulary.src_size, width, init),
                output: Linear::new(width, vocabulary.tgt_size, init),
            }
        }

        fn d_model(config: &BagConfig) -> usize {
            config.width.unwrap_or(4)
        }
    }

    const VOCABULARY: Vocabulary = Vocabulary {
        src_size: 5,
        tgt_size: 3,
        shared: false,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 8,
        image: None,
    };

    fn config(json: &str) -> Result<ModelConfig, String> {
        register_reader::<Bag>("bag").expect("the same may be registered again");
        serde_json::from_str(json).map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn settings_without_a_value_are_left_out_and_all_others_are_filled_in() {
        let config = config(r#"{"arch": "bag", "bag": {}}"#).unwrap();
        let written = serde_json::to_string(&config).unwrap();
        assert_eq!(written, r#"{"arch":"bag","bag":{"scale":0.0}}"#);
        assert_eq!(config.resolve(), config);
        let again: ModelConfig = serde_json::from_str(&written).unwrap();
        assert_eq!((&again, again.width()), (&config, 4));
    }

    #[test]
    fn what_is_wrong_in_a_table_is_named_by_its_key() {
        for (json, expected) in [
            (
                r#"{"arch": "bag", "bag": {"width": "a"}}"#,
                "`model.bag.width`: invalid type: string \"a\"",
            ),
            (
                r#"{"arch": "bag", "bag": {"height": 1}}"#,
                "`model.bag.height`: unknown field `height`",
            ),
            (
                r#"{"arch": "bag", "bag": {"scale": null}}"#,
                "`model.bag`: a number is not finite",
            ),
            (
                r#"{"arch": "bag", "bag": {}, "bag": {}}"#,
                "`[model.bag]` and `[model.bag]`: a model has one architecture",
            ),
            (
                r#"{"arch": "rnn", "bag": {}}"#,
                "`[model.bag]` belongs to `model.arch = \"bag\"`",
            ),
        ] {
            let error = config(json).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_hidden_model_is_named_frozen_and_replaced_by_its_parameters() {
        let device = Device::flex();
        let shape = config(r#"{"arch": "bag"}"#).unwrap().shape(VOCABULARY);
        let model = shape.unwrap().init(1, &device);
        let names: Vec<String> = parameter::read(&model)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["embedding.weight", "output.weight", "output.bias"]);
        assert_eq!(parameter::count(&model), 5 * 4 + 4 * 3 + 3);
        let zeros = |_: &str, shape: &[usize]| {
            Ok::<_, String>(burn::tensor::TensorData::zeros::<f32, _>(shape.to_vec()))
        };
        let model = parameter::replace(model, zeros).unwrap();
        let ids = Tensor::from_data([[1, 2]], &device);
        let logits = model.predict(Text { ids }).logits();
        let values: Vec<f32> = logits.into_data().iter::<f32>().collect();
        assert!(values.iter().all(|value| *value == 0.0) && values.len() == 3);
        assert_eq!(model.devices(), vec![device]);
    }

    #[test]
    fn a_model_that_does_not_suit_its_task_is_not_registered() {
        // A bag that says of itself that it has another task.
        macro_rules! lying {
            ($name:ident, $task:expr) => {
                #[derive(Module, Debug)]
                struct $name {
                    bag: Bag,
                }

                impl Predict<Text> for $name {
                    fn predict(&self, text: Text) -> Prediction<'_> {
                        self.bag.predict(text)
                    }
                }

                impl Inspect for $name {
                    type Inputs = Text;
                }

                impl Architecture for $name {
                    type Config = BagConfig;
                    const TASK: Task = $task;

                    fn new(
                        config: &BagConfig,
                        vocabulary: &Vocabulary,
                        init: &mut ParamInit,
                    ) -> Self {
                        Self {
                            bag: Bag::new(config, vocabulary, init),
                        }
                    }

                    fn d_model(config: &BagConfig) -> usize {
                        Bag::d_model(config)
                    }
                }
            };
        }

        lying!(Writer, Task::Language);
        lying!(Painter, Task::Images);
        let error = register_reader::<Writer>("writer").unwrap_err().to_string();
        assert!(error.contains("models of its task write text"), "{error}");
        let error = register_reader::<Painter>("painter").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("do not read the inputs of the task Images"),
            "{error}"
        );
    }
}
