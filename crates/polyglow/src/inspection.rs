//! A look at a config and its data before training: a report, trial steps, and warnings.

mod bleu;
mod fit;
mod pace;
mod report;
mod sentences;
mod sides;
mod text;
mod tokens;
mod trial;
mod warning;

use std::fs;
use std::path::Path;

use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_formats::{Format, check_export, formats};
use polyglow_predict::group::alone;
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::tasks::{Setting, TrainingData, configured};
use polyglow_train::train::{
    DiskEstimate, MemoryEstimate, Training, TrialReport, available_memory,
};
use polyglow_train::workload::BatchShape;
use serde::Serialize;

pub(crate) use pace::{TimeEstimate, duration};
pub(crate) use polyglow_data::clean::findings::{Check, DETECTORS, Finding};
pub(crate) use sides::language_warnings;
pub(crate) use text::SplitReport;
use text::TextReport;
use tokens::OwnText;
use trial::{Trial, Trials};
pub(crate) use warning::Warning;

/// The result of an inspection. Displayed, it is the report of `check` without its warnings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspection {
    /// The plan of the training.
    pub(crate) plan: PlanReport,
    /// `train`, then `valid` if there is one, then the test sets.
    pub(crate) splits: Vec<SplitReport>,
    /// Oddities in pairs of the text, with examples.
    pub(crate) findings: Vec<Finding>,
    /// Sizes of the vocabularies.
    pub(crate) vocabulary: VocabularyReport,
    /// Whether a model that translates text can be exported to each format; empty for other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exports: Vec<ExportReport>,
    /// Number of trained values; tied matrices count once.
    pub(crate) parameters: usize,
    /// Links between the tokens of the training text, if it comes with alignments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) links: Option<u64>,
    /// Share of the source lines trained on that hold several sentences, 0 to 1, by a sample;
    /// `None` if nothing is translated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) several_sentences: Option<f64>,
    /// The batches of an epoch.
    pub(crate) batches: BatchesReport,
    /// An estimate of the memory that training takes on the device.
    pub(crate) memory: MemoryEstimate,
    /// Memory that was free before the trial steps, in bytes; `None` where the device has its own,
    /// or the system does not tell.
    pub(crate) available_memory: Option<u64>,
    /// An estimate of what the run takes on the disk.
    pub(crate) disk: DiskEstimate,
    /// One training step on the largest batch.
    pub(crate) step: TrialReport,
    /// The time of the training on this machine, from steps over the mix of batches.
    pub(crate) time: TimeEstimate,
    /// Warnings, each with what to do about it.
    pub(crate) warnings: Vec<Warning>,
}

/// The choices that the config leaves open, as they were made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PlanReport {
    /// The task that is learned.
    pub(crate) task: &'static str,
    /// Name of the device.
    pub(crate) device: String,
    /// Whether that computes in host memory.
    pub(crate) on_host: bool,
    /// Whether it trains with the fused kernels.
    pub(crate) has_kernels: bool,
    /// Tokens of a batch, at most.
    pub(crate) max_tokens: usize,
    /// Padded lengths are multiples of this.
    pub(crate) pad_multiple: usize,
    /// The tokenizer of BLEU, if there are translations to score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokenize: Option<String>,
    /// The longest side that is trained on, in tokens.
    pub(crate) max_len: usize,
    /// The largest ratio of the sides of a pair that is trained on.
    pub(crate) max_length_ratio: f64,
}

impl PlanReport {
    fn new(plan: &Plan) -> Self {
        Self {
            task: plan.task.facts().name,
            device: plan.config.device.clone(),
            on_host: plan.on_host,
            has_kernels: plan.has_kernels,
            max_tokens: plan.max_tokens,
            pad_multiple: plan.pad_multiple,
            tokenize: plan
                .task
                .facts()
                .has_references()
                .then(|| plan.config.train.tokenize.to_string()),
            max_len: plan.config.data.max_len,
            max_length_ratio: plan.config.data.max_length_ratio,
        }
    }
}

/// Whether a model can be exported to a format.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ExportReport {
    /// The name in `polyglow export --to`.
    pub(crate) format: &'static str,
    /// Why it cannot be, and what would change that; `None` if it can.
    pub(crate) refused: Option<String>,
}

impl ExportReport {
    /// Checks a model of this plan and these tokenizers against every format; returns nothing for
    /// models that do not translate text.
    fn all(plan: &Plan, tokenizers: &Tokenizers) -> Vec<Self> {
        if !plan.task.facts().translates() {
            return Vec::new();
        }
        let mut reports = Vec::new();
        for format in formats() {
            reports.push(Self::new(format, plan, tokenizers));
        }
        reports
    }

    fn new(format: &dyn Format, plan: &Plan, tokenizers: &Tokenizers) -> Self {
        let refusal = check_export(format, &plan.config, tokenizers).err();
        let refused = refusal.map(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        });
        Self {
            format: format.name(),
            refused,
        }
    }
}

/// The sizes of the vocabularies, in tokens.
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
    /// Returns the sizes of a run's vocabularies.
    pub(crate) fn new(tokenizers: &Tokenizers) -> Self {
        Self {
            src: tokenizers.src.vocab_size(),
            tgt: tokenizers.tgt.vocab_size(),
            shared: tokenizers.is_shared(),
        }
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

/// Inspects a training before its first step: reads every split, plans the batches of an epoch, and
/// trains a throw-away model for some steps: on the largest batch, whose activations take the most
/// memory, and over the mix of batches, to see how long training takes. `directory` is where the
/// run is to be.
///
/// The text is streamed: memory holds some twenty bytes per training pair, and the held-out sets.
///
/// # Errors
/// Whatever would stop a training later: text that cannot be read, a sentence that no batch can
/// hold, sizes that do not fit each other, a step that fails or has a loss or gradient that is not
/// finite.
pub(crate) fn inspect(training: &Training, directory: &Path) -> anyhow::Result<Inspection> {
    let Training {
        plan,
        text,
        tokenizers,
        data,
        ..
    } = training;
    let cache = match data {
        TrainingData::Text(cache) | TrainingData::Captions { cache, .. } => Some(&**cache),
        TrainingData::Images { .. } => None,
    };
    // The links of tags to their words come with the data, so there is nothing to check.
    let aligned = cache.filter(|_| plan.content.is_parallel());
    let links = aligned.and_then(IdCache::num_links);
    let text_report = text::read_splits(plan, &text.train, cache, tokenizers)?;
    let several_sentences = sentences::share_of_several(plan, &text.train)?;
    let shape = plan.model_shape(tokenizers)?;
    // Read before the trial steps, which take memory themselves.
    let available_memory = plan.on_host.then(available_memory).flatten();
    let cache_bytes = fs::metadata(training.run.cache_path("train")).map_or(0, |file| file.len());
    let trial = Trial {
        plan,
        shape: &shape,
        cache: cache_bytes,
        directory,
    };
    // The first rank of several inspects for all of them, so nothing here may wait for the others.
    let setting = Setting {
        plan: plan.clone().with_group(alone()),
        ..training.setting()?
    };
    let Trials {
        batches,
        parameters,
        memory,
        disk,
        step,
        timed,
        work,
    } = trial.run(&configured(setting.clone(), data)?)?;
    let train = &text_report.splits[0];
    let lens = [train.src.mean_len, train.tgt.mean_len];
    let validation = trial::time_validation(&setting, data, &shape, lens)?;
    let time = TimeEstimate::new(&timed, validation, work);

    let mut warnings = text_warnings(training, &text_report, cache.is_some());
    warnings.extend(warning::of_config(&plan.config, &batches, links));
    warnings.extend(bleu::find(training)?);
    warnings.extend(warning::of_machine(&memory, available_memory, &disk));
    Ok(Inspection {
        plan: PlanReport::new(plan),
        splits: text_report.splits,
        findings: text_report.findings,
        vocabulary: VocabularyReport::new(tokenizers),
        exports: ExportReport::all(plan, tokenizers),
        parameters,
        links,
        several_sentences,
        batches,
        memory,
        available_memory,
        disk,
        step,
        time,
        warnings,
    })
}

/// Collects the warnings about pairs, whole sides, and tokenizers that were made for another text.
fn text_warnings(training: &Training, report: &TextReport, has_tokens: bool) -> Vec<Warning> {
    let mut warnings = warning::of_text(&report.splits, &report.findings);
    warnings.extend(report.warnings.iter().cloned());
    if has_tokens {
        let origin = training.origin();
        let own = origin.and_then(|origin| OwnText::of_run(&origin));
        warnings.extend(tokens::find(
            &training.plan,
            &report.splits[0],
            own.as_ref(),
        ));
    }
    warnings
}

/// Measures steps of another model, or with other batches, on the text of a training. Returns the
/// number of parameters and the time, in which a validation takes 0 s without a validation set.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn measure(
    training: &Training,
    config: Config,
) -> anyhow::Result<(usize, TimeEstimate)> {
    let plan = Plan::on(config, training.plan.device.clone(), None);
    let shape = plan.model_shape(&training.tokenizers)?;
    let setting = Setting {
        plan: plan.clone(),
        ..training.setting()?
    };
    let trial = Trial {
        plan: &plan,
        shape: &shape,
        cache: 0,
        directory: training.run.root(),
    };
    let Trials {
        parameters,
        timed,
        work,
        ..
    } = trial.run(&configured(setting.clone(), &training.data)?)?;
    let lens = match &training.data {
        TrainingData::Text(cache) | TrainingData::Captions { cache, .. } => {
            let report = cache.report();
            [&report.src, &report.tgt].map(|side| side.mean_len(report.kept))
        }
        TrainingData::Images { .. } => [1.0, 1.0],
    };
    let validation = trial::time_validation(&setting, &training.data, &shape, lens)?;
    Ok((parameters, TimeEstimate::new(&timed, validation, work)))
}
