//! A look at a config and its data before training: a report, a trial step, and warnings.

mod bleu;
mod report;
mod text;
mod warning;

use std::collections::BTreeSet;

use polyglow_data::batching::EpochPlan;
use polyglow_data::sources::BatchSource;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{Model, ModelShape, parameter};
use polyglow_train::predict::model::model_shape;
use polyglow_train::tasks::{Task, TrainingData, Visitor, with_task};
use polyglow_train::train::{MemoryEstimate, Training, TrialReport, activations, last_step, try_step};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result, TaskPlan, TrainError};
use serde::Serialize;

use crate::allocator;

pub(crate) use text::SplitReport;
pub(crate) use warning::Warning;

/// What was found. Displayed, it is the report of `check` without its warnings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspection {
    /// What runs.
    pub(crate) plan: PlanReport,
    /// `train`, then `valid` if there is one, then the test sets.
    pub(crate) splits: Vec<SplitReport>,
    /// Sizes of the vocabularies.
    pub(crate) vocabulary: VocabularyReport,
    /// Number of trained values; tied matrices count once.
    pub(crate) parameters: usize,
    /// Links between the tokens of the training text, if it comes with alignments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) links: Option<u64>,
    /// The batches of an epoch.
    pub(crate) batches: BatchesReport,
    /// An estimate of the memory that training takes on the device.
    pub(crate) memory: MemoryEstimate,
    /// One training step on the largest batch.
    pub(crate) step: TrialReport,
    /// What is suspicious, with what to do about it.
    pub(crate) warnings: Vec<Warning>,
}

/// What the config left open, decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlanReport {
    /// What is learned.
    pub(crate) task: &'static str,
    /// Name of the device.
    pub(crate) device: String,
    /// Whether that computes in host memory.
    pub(crate) on_host: bool,
    /// Whether it trains with the fused kernels.
    pub(crate) has_kernels: bool,
    /// Tokens of a batch, at most.
    pub(crate) max_tokens: usize,
    /// What padded lengths are multiples of.
    pub(crate) pad_multiple: usize,
    /// How BLEU splits lines, if there are translations to score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokenize: Option<String>,
}

impl PlanReport {
    fn new(plan: &Plan) -> Self {
        Self {
            task: plan.task.kind().name(),
            device: plan.config.device.clone(),
            on_host: plan.on_host,
            has_kernels: plan.has_kernels,
            max_tokens: plan.max_tokens(),
            pad_multiple: plan.pad_multiple,
            tokenize: (plan.task == TaskPlan::Translation).then(|| plan.config.train.tokenize.to_string()),
        }
    }
}

/// Numbers of token ids.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct VocabularyReport {
    /// Of the source.
    pub(crate) src: usize,
    /// Of the target.
    pub(crate) tgt: usize,
    /// Whether both sides have one vocabulary.
    pub(crate) shared: bool,
}

impl VocabularyReport {
    /// The sizes of a run's vocabularies.
    pub(crate) fn new(tokenizers: &Tokenizers) -> Self {
        let (src, tgt) = (tokenizers.src.vocab_size(), tokenizers.tgt.vocab_size());
        Self { src, tgt, shared: tokenizers.is_shared() }
    }
}

/// The batches of the training text.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BatchesReport {
    /// Batches in the first epoch.
    pub(crate) per_epoch: usize,
    /// Different shapes among them.
    pub(crate) shapes: usize,
    /// Steps in an epoch.
    pub(crate) steps_per_epoch: u64,
    /// Steps of the whole training, if patience does not end it earlier.
    pub(crate) steps: u64,
    /// Share of the positions of source and target that is padding, 0 to 1.
    pub(crate) padding: f64,
    /// The batch that takes the most memory.
    pub(crate) largest: BatchShape,
}

/// Reads every split, plans the batches of an epoch, and trains a throw-away model for one step on the largest batch:
/// the one whose activations take the most memory.
///
/// The text is streamed: memory holds eight bytes per training pair and a few per held-out sentence.
///
/// # Errors
/// Whatever would stop a training later: text that cannot be read, a sentence that no batch can hold, sizes that do
/// not fit each other, a step that fails or has a loss or gradient that is not finite.
pub(crate) fn inspect(training: &Training) -> anyhow::Result<Inspection> {
    let Training { plan, text, tokenizers, data, .. } = training;
    let (report, links) = match data {
        TrainingData::Text(cache) => (Some(cache.report()), cache.num_links()),
        TrainingData::Images { .. } => (None, None),
    };
    let splits = text::read_splits(plan, &text.train, report, tokenizers)?;
    let shape = model_shape(plan, tokenizers)?;
    let trial = with_task(training.setting()?, data, Trial { plan, shape: &shape })?;
    let (batches, parameters, memory, step) = trial;
    let mut warnings = warning::find(&plan.config, &splits, &batches, links);
    warnings.extend(bleu::find(training)?);
    let (plan, vocabulary) = (PlanReport::new(plan), VocabularyReport::new(tokenizers));
    Ok(Inspection { plan, splits, vocabulary, parameters, links, batches, memory, step, warnings })
}

/// A step on the largest batch of the first epoch.
struct Trial<'a> {
    plan: &'a Plan,
    shape: &'a ModelShape,
}

impl Visitor for Trial<'_> {
    type Output = (BatchesReport, usize, MemoryEstimate, TrialReport);

    fn visit<T: Task<Model = Model>>(self, task: T) -> Result<Self::Output> {
        let Self { plan, shape } = self;
        let epoch = task.source().plan(0).map_err(Into::into)?;
        let (batches, place) = plan_batches(plan, shape, &**task.source(), &epoch)?;
        let device = plan.training_device()?;
        let model = shape.init(plan.config.seed, &device);
        let parameters = parameter::count(&model);
        let memory = MemoryEstimate::new(shape, &plan.config.train, &model, batches.largest, plan.has_kernels);
        let BatchShape { rows, src_len, tgt_len } = batches.largest;
        tracing::info!(
            "trying a step on the largest batch: {rows} rows of {src_len} + {tgt_len} positions, about {}",
            mebibytes(memory.total)
        );
        // Noted for the message if memory runs out here, as it is for the steps of a training.
        allocator::note_batch(Some(batches.largest));
        let batch = || task.source().batch(0, epoch.batch(place)).map_err(Into::into);
        let step = try_step(&task, plan, model, batch, &device);
        allocator::note_batch(None);
        Ok((batches, parameters, memory, step?))
    }
}

/// The batches of the first epoch, and the place of the largest.
fn plan_batches<S: BatchSource>(
    plan: &Plan,
    model: &ModelShape,
    source: &S,
    epoch: &EpochPlan,
) -> Result<(BatchesReport, usize)> {
    let (mut positions, mut real) = (0, 0);
    let mut largest: Option<(u64, usize, BatchShape)> = None;
    let mut shapes = BTreeSet::new();
    for place in 0..epoch.len() {
        let (shape, real_positions) = source.size(0, epoch.batch(place));
        let shape = BatchShape::from(shape);
        shapes.insert(shape);
        positions += shape.positions();
        real += real_positions;
        let bytes = activations(model, shape, plan.has_kernels);
        if largest.is_none_or(|(most, ..)| bytes > most) {
            largest = Some((bytes, place, shape));
        }
    }
    let (_, place, largest) = largest.ok_or_else(|| TrainError::new("the training text yields no batch"))?;
    let train = &plan.config.train;
    let report = BatchesReport {
        per_epoch: epoch.len(),
        shapes: shapes.len(),
        steps_per_epoch: epoch.len().div_ceil(train.accumulate_steps) as u64,
        steps: last_step(train, epoch.len()),
        padding: 1.0 - real as f64 / positions as f64,
        largest,
    };
    Ok((report, place))
}

/// Bytes in MiB, rounded up: `312 MiB`.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
