//! A look at a config and its data before training: a report, a trial step, and warnings.

mod report;
mod text;
mod warning;

use std::collections::BTreeSet;

use anyhow::Context;
use burn::tensor::Device;
use polyglow_data::batch::Batch;
use polyglow_data::config::DataConfig;
use polyglow_data::corpus::Corpus;
use polyglow_data::epoch::Epoch;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{ModelShape, parameter};
use polyglow_train::config::Config;
use polyglow_train::run::{check_beam, model_shape};
use polyglow_train::train::{
    MemoryEstimate, TrialReport, activations, batching, has_kernels, last_step, training_device, try_step,
};
use polyglow_train::workload::BatchShape;
use serde::Serialize;

pub(crate) use text::SplitReport;
pub(crate) use warning::Warning;

/// Whether a training has validation text; every embedded corpus brings its own.
pub(crate) fn has_valid(data: &DataConfig) -> bool {
    data.corpus.is_some() || data.valid.is_some()
}

/// What is inspected: everything that a training starts from.
pub(crate) struct Subject<'a> {
    /// The configuration.
    pub(crate) config: &'a Config,
    /// The training text.
    pub(crate) train: &'a Corpus,
    /// The training examples.
    pub(crate) cache: &'a IdCache,
    /// Both sides' tokenizers.
    pub(crate) tokenizers: &'a Tokenizers,
    /// Where the trial step runs, without autodiff.
    pub(crate) device: &'a Device,
}

/// What was found. Displayed, it is the report of `check` without its warnings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspection {
    /// Name of the device of the trial step.
    pub(crate) device: String,
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
pub(crate) fn inspect(subject: &Subject<'_>) -> anyhow::Result<Inspection> {
    let Subject { config, tokenizers, cache, device, .. } = *subject;
    check_beam(&config.search, tokenizers)?;
    let splits = text::read_splits(&config.data, subject.train, cache.report(), tokenizers)?;
    let shape = model_shape(config, tokenizers)?;
    let (batches, largest) = plan_batches(subject, &shape)?;

    let training = training_device(config, device)?;
    let model = shape.init(config.seed, &training);
    let parameters = parameter::count(&model);
    let memory = MemoryEstimate::new(&shape, &config.train, &model, batches.largest, has_kernels(config));
    let BatchShape { rows, src_len, tgt_len } = batches.largest;
    tracing::info!(
        "trying a step on the largest batch: {rows} rows of {src_len} + {tgt_len} positions, about {}",
        mebibytes(memory.total)
    );
    let step = try_step(config, model, &largest, &training)?;

    let vocabulary = VocabularyReport::new(tokenizers);
    let links = cache.num_links();
    let warnings = warning::find(config, &splits, &batches, links);
    let device = config.device.clone();
    Ok(Inspection { device, splits, vocabulary, parameters, links, batches, memory, step, warnings })
}

/// Plans the first epoch; also returns its largest batch.
fn plan_batches(subject: &Subject<'_>, model: &ModelShape) -> anyhow::Result<(BatchesReport, Batch)> {
    let Subject { config, cache, .. } = *subject;
    let epoch = Epoch::new(cache, &batching(config), 0)?;
    let (mut positions, mut real) = (0, 0);
    let mut largest: Option<(u64, usize, BatchShape)> = None;
    let mut shapes = BTreeSet::new();
    for (place, shape) in BatchShape::of_epoch(&epoch, cache).enumerate() {
        shapes.insert(shape);
        positions += shape.positions();
        real += epoch.num_real_positions(cache, place);
        let bytes = activations(model, shape, has_kernels(config));
        if largest.is_none_or(|(most, ..)| bytes > most) {
            largest = Some((bytes, place, shape));
        }
    }
    let (_, place, largest) = largest.context("the training text gives no batch")?;
    let steps_per_epoch = epoch.len().div_ceil(config.train.accumulate_steps) as u64;
    let report = BatchesReport {
        per_epoch: epoch.len(),
        shapes: shapes.len(),
        steps_per_epoch,
        steps: last_step(&config.train, epoch.len()),
        padding: 1.0 - real as f64 / positions as f64,
        largest,
    };
    Ok((report, epoch.batch(cache, place, None)?))
}

/// Bytes in MiB, rounded up: `312 MiB`.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
