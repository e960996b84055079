//! The parts that a program adds to those that are built in.

use std::process::ExitCode;

use polyglow_data::example::Filter;
use polyglow_formats::{Format, register_format};
use polyglow_metrics::Measure;
use polyglow_model::registry::{self, Architecture};
use polyglow_model::{Generate, ModelError};
use polyglow_predict::error::usage;
use polyglow_predict::measures::{ScoreOutputs, register_measure, register_metric};
use polyglow_train::run::Program;
use polyglow_train::tasks::{MakeTask, register_task};
use polyglow_train::train::{LearningRate, MakeUpdateRule, register_optimizer, register_schedule};
use polyglow_train::{Augment, register_augmentation, register_filter};

use crate::{cli, failure, program, run_program};

/// The parts of a program's own, under the names that its configs give them.
///
/// A program with a model of its own has the whole command line:
///
/// ```no_run
/// # use burn::module::Module;
/// # use burn::tensor::{Device, Int, Tensor};
/// # use polyglow_model::embedding::Embedding;
/// # use polyglow_model::init::ParamInit;
/// # use polyglow_model::linear::Linear;
/// # use polyglow_model::registry::Architecture;
/// # use polyglow_model::{Generate, Inspect, Predict, Prediction, Projection, Source, Task, Text, Vocabulary};
/// use std::process::ExitCode;
///
/// use polyglow::Registry;
/// # #[derive(Module, Debug)]
/// # struct Bigram {
/// #     embedding: Embedding,
/// #     output: Linear,
/// # }
/// # #[derive(Default, serde::Serialize, serde::Deserialize)]
/// # struct Settings {}
/// # impl Architecture for Bigram {
/// #     type Config = Settings;
/// #     const TASK: Task = Task::Language;
/// #     fn new(_: &Settings, vocabulary: &Vocabulary, init: &mut ParamInit) -> Self {
/// #         Self {
/// #             embedding: Embedding::new(vocabulary.tgt_size, 64, init),
/// #             output: Linear::new(64, vocabulary.tgt_size, init),
/// #         }
/// #     }
/// #     fn d_model(_: &Settings) -> usize {
/// #         64
/// #     }
/// # }
/// # impl Predict<Text> for Bigram {
/// #     fn predict(&self, text: Text) -> Prediction<'_> {
/// #         Projection::Own(&self.output).project(self.embedding.forward(text.ids).flatten(0, 1))
/// #     }
/// # }
/// # impl Generate for Bigram {
/// #     type Cache = ();
/// #     fn start(&self, _: Source) {}
/// #     fn advance(&self, ids: Tensor<2, Int>, (): &mut ()) -> Tensor<2> {
/// #         self.predict(Text { ids }).logits()
/// #     }
/// #     fn select((): &mut (), _: &[usize], _: &Device) {}
/// # }
/// # impl Inspect for Bigram {
/// #     type Inputs = Text;
/// # }
///
/// fn main() -> ExitCode {
///     polyglow::run_with(Registry::new().architecture::<Bigram>("bigram"))
/// }
/// ```
#[derive(Default)]
#[must_use = "`run_with` takes it"]
pub struct Registry {
    parts: Vec<Register>,
}

/// Registers a part in the library that it belongs to.
type Register = Box<dyn FnOnce() -> Result<(), ModelError>>;

impl Registry {
    /// Makes a registry that adds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the program, so that a run says what has written it, and messages advise its commands;
    /// `version` is its own, as `env!("CARGO_PKG_VERSION")` has it. Without this, it has the name of
    /// the executable, and the version of polyglow.
    pub fn program(self, name: &'static str, version: &'static str) -> Self {
        self.with(move || {
            Program::set(name, version);
            Ok(())
        })
    }

    /// Adds an architecture whose models write text, for `model.arch = "NAME"` and its table
    /// `[model.NAME]`.
    pub fn architecture<A>(self, name: &'static str) -> Self
    where
        A: Architecture + Generate<Cache: 'static>,
    {
        self.with(move || registry::register::<A>(name))
    }

    /// As [`Self::architecture`], of models that write no text: they label, tag, or find hidden
    /// tokens.
    pub fn reader<A: Architecture>(self, name: &'static str) -> Self {
        self.with(move || registry::register_reader::<A>(name))
    }

    /// Adds a schedule, for `train.schedule = "NAME"`: the learning rate of a step, the first of
    /// which is step 1.
    pub fn schedule(self, name: &'static str, learning_rate: LearningRate) -> Self {
        self.with(move || register_schedule(name, learning_rate))
    }

    /// Adds an update rule, for `train.optimizer = "NAME"`.
    pub fn optimizer(self, name: &'static str, make: MakeUpdateRule) -> Self {
        self.with(move || register_optimizer(name, make))
    }

    /// Adds a metric of outputs and their references, for tasks whose models write text for a source.
    /// Validations, the final test and `polyglow
    /// evaluate` compute it, records and reports have it, and `train.best_metric` may name its key.
    pub fn metric(self, measure: Measure, score_outputs: ScoreOutputs) -> Self {
        self.with(move || register_metric(measure, score_outputs))
    }

    /// Adds a score that a task of the program's own gives in [`Scores::others`], so that records,
    /// reports and `train.best_metric` know its key and its title.
    ///
    /// [`Scores::others`]: polyglow_predict::evaluation::Scores::others
    pub fn measure(self, measure: Measure) -> Self {
        self.with(move || register_measure(measure))
    }

    /// Adds a task, for `train.task = "NAME"`: batches, a loss and a validation for models that the
    /// config names.
    pub fn task(self, name: &'static str, make: MakeTask) -> Self {
        self.with(move || register_task(name, make))
    }

    /// Adds a change of examples before they are trained on, for `train.augmentation = "NAME"`.
    pub fn augmentation(self, name: &'static str, augment: Augment) -> Self {
        self.with(move || register_augmentation(name, augment))
    }

    /// Adds a rule by which pairs are left out of training, for `data.filters = ["NAME"]`. `check`
    /// shows what it leaves out.
    pub fn filter(self, name: &'static str, filter: impl Filter + 'static) -> Self {
        self.with(move || register_filter(name, filter))
    }

    /// Adds a format of another program, for `export --to NAME` and, if it can be read, for
    /// `import`.
    pub fn format(self, format: impl Format + Sync + 'static) -> Self {
        self.with(move || register_format(Box::new(format)))
    }

    fn with(mut self, register: impl FnOnce() -> Result<(), ModelError> + 'static) -> Self {
        self.parts.push(Box::new(register));
        self
    }

    /// Registers all parts.
    fn register(self) -> Result<(), ModelError> {
        for register in self.parts {
            register()?;
        }
        Ok(())
    }
}

/// Runs the program as [`crate::run`] does, with parts of its own besides those that are built in. An
/// architecture of one's own is trained, resumed, scored, searched and served like any other;
/// formats of other programs refuse it.
pub fn run_with(registry: Registry) -> ExitCode {
    let registered = registry.register();
    program::name_this();
    match registered {
        Ok(()) => run_program(cli::run),
        Err(error) => ExitCode::from(failure::report(&usage(error).into())),
    }
}
