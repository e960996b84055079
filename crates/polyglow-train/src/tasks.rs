//! The tasks that can be learned: a file or folder per task, with its batches and its loss.
//!
//! The loop in [`mod@crate::train`] knows only the trait [`Task`]. A new task is a file here and one
//! of the same name in [`polyglow_predict::tasks`], with a row in each table; a task of one's own
//! implements the trait anywhere, and is registered ([`register_task`]) or passed to
//! [`Training::run_with`](crate::Training::run_with).

mod any;
pub mod captions;
pub mod hidden_tokens;
pub mod images;
pub mod labels;
pub mod language;
mod setting;
pub mod tags;
pub mod translation;
pub mod words;

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use polyglow_data::pair::Pair;
use polyglow_data::sources::BatchSource;
use polyglow_model::registry::{Named, Row, Table};
use polyglow_model::{LossOutput, Model, Task as Kind};
use polyglow_predict::TaskFacts;
use polyglow_predict::error::{Result, TrainError, ensure};
use polyglow_predict::evaluation::{Evaluation, EvaluationOptions, Scores};
use polyglow_predict::runner::Runner;
use polyglow_predict::samples::spread;

use crate::config::Config;
use crate::train::short_type_name;
use crate::workload::BatchShape;
pub use any::{AnyBatch, AnySource, AnyTask};
pub use setting::{HELD_OUT, HeldOut, Setting, TrainingData, held_out_span};

/// A task says what a model learns: it gives the batches, the loss and the scores.
///
/// A task of one's own may be made of another, here with half of its loss;
/// `examples/custom_data.rs` makes one from nothing.
///
/// ```
/// use std::sync::Arc;
///
/// use burn::tensor::Device;
/// use polyglow_model::Model;
/// use polyglow_train::tasks::translation::Translation;
/// use polyglow_train::tasks::{BatchOf, BatchSize, Loss};
/// use polyglow_train::{Config, Ending, Silent, Stop, Task, Training};
///
/// struct Half<T>(T);
///
/// impl<T: Task> Task for Half<T> {
///     type Model = T::Model;
///     type Source = T::Source;
///     type Inputs = T::Inputs;
///
///     fn source(&self) -> &Arc<T::Source> {
///         self.0.source()
///     }
///
///     fn size(&self, batch: &BatchOf<Self>) -> BatchSize {
///         self.0.size(batch)
///     }
///
///     fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> T::Inputs {
///         self.0.upload(batch, device)
///     }
///
///     fn loss(&self, model: &T::Model, inputs: T::Inputs) -> Loss {
///         let loss = self.0.loss(model, inputs);
///         Loss { minimized: loss.minimized * 0.5, ..loss }
///     }
/// }
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// let task = Half(Translation::<Model>::new(training.setting()?, Arc::clone(training.data.text()?))?);
/// let shape = training.plan.model_shape(&training.tokenizers)?;
/// let (ending, _) = training.run_with(&task, |device| shape.init(1, device), &Stop::default(), &mut Silent)?;
/// assert_eq!(ending, Ending::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Task: Send + Sync + 'static {
    /// The type of the model that learns.
    type Model: Module + Sync;
    /// The type of the source that its batches come from.
    type Source: BatchSource<Error: Into<TrainError>>;
    /// A batch on the device.
    type Inputs: 'static;

    /// Returns the source that batches come from.
    fn source(&self) -> &Arc<Self::Source>;

    /// Returns how large a batch is.
    fn size(&self, batch: &BatchOf<Self>) -> BatchSize;

    /// Uploads a batch to the device.
    fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> Self::Inputs;

    /// Computes the loss of a batch, as sums over its targets.
    fn loss(&self, model: &Self::Model, inputs: Self::Inputs) -> Loss;

    /// Returns the name by which a run keeps a task that its config does not name; the run is resumed
    /// only with a task of the same name. The default is the name of the type. Settings on which
    /// the results depend may stand in it. `None` for the built-in tasks.
    fn name(&self) -> Option<String> {
        Some(short_type_name::<Self>())
    }

    /// Returns the loss of a model that has learned nothing, and finds all targets equally probable,
    /// in nats per target: a loss above it has diverged. `None` if that says nothing of the task, as
    /// of one whose loss is no cross-entropy.
    fn uniform_loss(&self) -> Option<f64> {
        None
    }

    /// Scores held-out data; `None` if there is none. `model` is on a device that does not
    /// differentiate.
    ///
    /// # Errors
    /// The data cannot be scored.
    fn validate(&self, _model: Self::Model) -> Result<Option<Validation>> {
        Ok(None)
    }
}

/// A batch of a task, in host memory.
pub type BatchOf<T> = <<T as Task>::Source as BatchSource>::Batch;

/// A micro-batch of a task: its shards, each a batch. Gradients are added in their order.
pub type MicroBatch<T> = Vec<BatchOf<T>>;

/// The size of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Its shape, with padding.
    pub shape: BatchShape,
    /// Input and target positions that are no padding.
    pub real_positions: usize,
    /// Targets that count in the loss, which is divided by their number.
    pub targets: usize,
    /// Bytes that go to the device.
    pub bytes: usize,
}

impl BatchSize {
    /// Returns the size of all shards together: their rows, padded to the longest.
    pub fn of_all(shards: impl IntoIterator<Item = Self>) -> Self {
        let join = |a: BatchShape, b: BatchShape| BatchShape {
            rows: a.rows + b.rows,
            src_len: a.src_len.max(b.src_len),
            tgt_len: a.tgt_len.max(b.tgt_len),
        };
        shards.into_iter().fold(Self::default(), |all, shard| Self {
            shape: join(all.shape, shard.shape),
            real_positions: all.real_positions + shard.real_positions,
            targets: all.targets + shard.targets,
            bytes: all.bytes + shard.bytes,
        })
    }
}

/// Bytes of an id on the device.
pub(crate) const ID_BYTES: usize = size_of::<i32>();

/// The loss of a batch, as sums in nats, `[1]` each.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The loss that is differentiated.
    pub minimized: Tensor<1>,
    /// Smoothed cross-entropy.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing.
    pub nll_sum: Tensor<1>,
}

impl From<LossOutput> for Loss {
    fn from(LossOutput { loss_sum, nll_sum }: LossOutput) -> Self {
        Self {
            minimized: loss_sum.clone(),
            loss_sum,
            nll_sum,
        }
    }
}

impl Loss {
    /// Makes a loss of one sum, such as that of a task of one's own.
    pub fn new(sum: Tensor<1>) -> Self {
        Self {
            minimized: sum.clone(),
            loss_sum: sum.clone(),
            nll_sum: sum,
        }
    }
}

/// The result of a validation.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The scores.
    pub scores: Scores,
    /// The model's outputs, one line per example; empty if it writes nothing.
    pub outputs: Vec<String>,
    /// Some examples to look at: input, reference, and what the model wrote.
    pub samples: Vec<[String; 3]>,
}

/// Translations that are shown after each validation.
const SAMPLES: usize = 3;

impl Validation {
    /// Makes the result of a validation from translations of these pairs.
    fn new(evaluation: Evaluation, pairs: &[Pair]) -> Self {
        let Evaluation {
            scores,
            hypotheses: outputs,
            ..
        } = evaluation;
        let sample = |place| {
            let (Pair { src, tgt }, output): (&Pair, &String) =
                (&pairs[place], outputs.get(place)?);
            Some([src.clone(), tgt.clone(), output.clone()])
        };
        let samples = spread(pairs, SAMPLES)
            .into_iter()
            .filter_map(sample)
            .collect();
        Self {
            scores,
            outputs,
            samples,
        }
    }
}

/// Scores the models of a runner on held-out data.
///
/// # Errors
/// A line cannot be encoded or decoded; the set is empty, or not what the models were trained for.
pub fn evaluate(
    runner: &Runner,
    held_out: &HeldOut,
    options: &EvaluationOptions,
) -> Result<Evaluation> {
    ensure!(
        !held_out.is_empty(),
        "there is nothing to evaluate: the set is empty"
    );
    runner.task.evaluate(runner, &held_out.examples(), options)
}

/// Makes a task from the setting of a training and its prepared data.
pub type MakeTask = fn(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>>;

/// A row of the table of tasks: what training needs of one.
pub struct TaskRow {
    name: &'static str,
    /// The facts of the models that it trains; `None` if it trains models of any kind.
    facts: Option<&'static TaskFacts>,
    make: MakeTask,
    /// Checks what only this task asks of a config.
    check: fn(&Config) -> Result<()>,
    /// A key that no other task has.
    own_key: Option<OwnKey>,
    /// Whether examples may be changed before they are in a batch: `train.augmentation`.
    augments: bool,
}

/// A key of a config that only one task has.
struct OwnKey {
    is_given: fn(&Config) -> bool,
    /// The message where it is given for another task.
    refusal: &'static str,
}

/// The tasks that are built in; each has a row of facts in [`polyglow_predict::tasks`], too.
const BUILT_IN: [&TaskRow; 8] = [
    &translation::TRAINING,
    &language::TRAINING,
    &words::TRAINING,
    &labels::TRAINING,
    &tags::TRAINING,
    &images::TRAINING,
    &captions::TRAINING,
    &hidden_tokens::TRAINING,
];

static TABLE: Table<TaskRow> = Table::new("train.task", &BUILT_IN);

impl Named for TaskRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Row for TaskRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

impl TaskRow {
    /// Makes the row of a built-in task that asks nothing more of a config.
    const fn built_in(facts: &'static TaskFacts, make: MakeTask) -> Self {
        Self {
            name: facts.name,
            facts: Some(facts),
            make,
            check: |_| Ok(()),
            own_key: None,
            augments: false,
        }
    }
}

/// Registers a task, which a config chooses by `train.task = "NAME"`. It trains a model that the
/// config names, a built-in or a registered one, with batches, a loss and scores of its own; the
/// trained model is used as any other of its architecture. [`Setting::augmentation`] is the task's
/// to use.
///
/// ```
/// use polyglow_train::tasks::{AnyTask, register_task};
/// # use std::sync::Arc;
/// # use burn::tensor::Device;
/// # use polyglow_model::Model;
/// # use polyglow_train::tasks::translation::Translation;
/// # use polyglow_train::tasks::{BatchOf, BatchSize, Loss};
/// # use polyglow_train::{Config, Ending, Silent, Stop, Task, Training};
/// # struct Half(Translation);
/// # impl Task for Half {
/// #     type Model = Model;
/// #     type Source = <Translation as Task>::Source;
/// #     type Inputs = <Translation as Task>::Inputs;
/// #     fn source(&self) -> &Arc<Self::Source> { self.0.source() }
/// #     fn size(&self, batch: &BatchOf<Self>) -> BatchSize { self.0.size(batch) }
/// #     fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> Self::Inputs { self.0.upload(batch, device) }
/// #     fn loss(&self, model: &Model, inputs: Self::Inputs) -> Loss {
/// #         let loss = self.0.loss(model, inputs);
/// #         Loss { minimized: loss.minimized * 0.5, ..loss }
/// #     }
/// # }
///
/// register_task("half", |setting, data| {
///     let cache = Arc::clone(data.text()?);
///     Ok(AnyTask::new(Half(Translation::new(setting, cache)?)))
/// })?;
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { task = 'half', max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let mut training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// assert_eq!(training.run(&Stop::default(), &mut Silent)?.0, Ending::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The name is no word in lower case, or that of another task.
pub fn register_task(
    name: &'static str,
    make: MakeTask,
) -> std::result::Result<(), polyglow_model::ModelError> {
    TABLE.register(Box::new(TaskRow {
        name,
        facts: None,
        make,
        check: |_| Ok(()),
        own_key: None,
        augments: true,
    }))
}

/// Returns the row that trains the model of a config: the one that it names, or else the built-in
/// one of the architecture.
fn row_for(config: &Config) -> &'static TaskRow {
    let kind = config.model.task();
    match config.train.task {
        Some(chosen) => chosen.0,
        None => built_in_for(kind),
    }
}

/// Returns the built-in row of a kind of task.
fn built_in_for(kind: Kind) -> &'static TaskRow {
    let is_of_kind = |row: &&&TaskRow| row.facts.is_some_and(|facts| facts.kind == kind);
    BUILT_IN
        .iter()
        .find(is_of_kind)
        .expect("every kind of task has a row")
}

/// Checks a config as its task wants it, and that no key of another task is given.
///
/// # Errors
/// The message names the key and says why it does not fit.
pub(crate) fn check_config(config: &Config) -> Result<()> {
    let kind = config.model.task();
    let own = row_for(config);
    if let Some(facts) = own.facts {
        ensure!(
            facts.kind == kind,
            "`train.task = \"{}\"`: `model.arch = \"{}\"` is for the task `{}`",
            own.name,
            config.model.arch.name(),
            built_in_for(kind).name
        );
    }
    ensure!(
        config.train.augmentation.is_none() || own.augments && config.data.context_len.is_none(),
        "`train.augmentation`: the task `{}` reads its text as it stands; translation, labels of \
         texts, and language models without `data.context_len` may change it",
        own.name
    );
    for row in BUILT_IN {
        if row.facts.is_some_and(|facts| facts.kind == kind) {
            (row.check)(config)?;
        } else if let Some(key) = &row.own_key {
            ensure!(!(key.is_given)(config), "{}", key.refusal);
        }
    }
    Ok(())
}

/// Makes the task of a plan: the one that its config names, or else the built-in one of the
/// architecture.
///
/// # Errors
/// The data does not suit the task.
pub fn configured(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    (row_for(&setting.plan.config).make)(setting, data)
}

#[cfg(test)]
mod tests {
    use polyglow_predict::tasks::facts;

    use super::*;

    #[test]
    fn every_kind_of_task_has_exactly_one_built_in_row() {
        for kind in Kind::ALL {
            let is_of_kind = |row: &&&TaskRow| row.facts.is_some_and(|facts| facts.kind == kind);
            assert_eq!(BUILT_IN.iter().filter(is_of_kind).count(), 1, "{kind:?}");
            assert_eq!(built_in_for(kind).name, facts(kind).name);
        }
        // With one row for each kind, a further one would train nothing.
        assert_eq!(BUILT_IN.len(), Kind::ALL.len());
    }
}
