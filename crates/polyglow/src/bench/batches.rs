//! The batches of a measurement: those of a config's text, or random sentences.

use anyhow::{Context, anyhow};
use polyglow_model::ModelShape;
use polyglow_train::tasks::configured;
use polyglow_train::train::Training;
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Silent};

use super::args::ModelArgs;
use super::{RandomPairs, StepBench, StepReport, StepTimes, Trace};
use crate::failure::{usage, with_hint};

/// Shapes of about 2 048 tokens per side.
const SHAPES: [BatchShape; 3] = [
    BatchShape {
        rows: 256,
        src_len: 8,
        tgt_len: 8,
    },
    BatchShape {
        rows: 128,
        src_len: 16,
        tgt_len: 16,
    },
    BatchShape {
        rows: 64,
        src_len: 32,
        tgt_len: 32,
    },
];
/// Words of random sentences: as many as the vocabulary of the Multi30k recipe has.
pub const VOCAB_SIZE: usize = 9708;

/// The batches that are measured.
pub enum Batches {
    /// Batches of the training text that the config names.
    Corpus,
    /// Random sentences.
    Random {
        /// A batch of each shape.
        shapes: Vec<BatchShape>,
        /// The size of the vocabulary, which both sides share.
        vocab_size: usize,
    },
}

impl Batches {
    /// The text of the config, or else random sentences of these shapes, where there are any.
    ///
    /// # Errors
    /// There is a config, and a size of random sentences, too (exit code 2).
    pub fn new(
        model: &ModelArgs,
        shapes: &[BatchShape],
        vocab_size: Option<usize>,
    ) -> anyhow::Result<Self> {
        if model.config.is_none() {
            let shapes = if shapes.is_empty() { &SHAPES } else { shapes };
            return Ok(Self::Random {
                shapes: shapes.to_vec(),
                vocab_size: vocab_size.unwrap_or(VOCAB_SIZE),
            });
        }
        if shapes.is_empty() && vocab_size.is_none() {
            return Ok(Self::Corpus);
        }
        let error = usage(anyhow!(
            "`--shape` and `--vocab-size` are of random sentences, and a config has text of its own"
        ));
        Err(with_hint(
            error,
            "leave out either the config or these options",
        ))
    }

    /// The shape of a plan's model for these batches.
    ///
    /// # Errors
    /// The text cannot be read; a size does not fit another.
    pub fn model_shape(&self, plan: &Plan) -> anyhow::Result<ModelShape> {
        match self {
            Self::Corpus => prepare(plan, |training| {
                Ok(training.plan.model_shape(&training.tokenizers)?)
            }),
            Self::Random { shapes, vocab_size } => {
                let (_, shape) = RandomPairs::new(plan, shapes, *vocab_size)?;
                Ok(shape)
            }
        }
    }

    /// Measures as many training steps on each batch, and writes them into the timeline.
    ///
    /// # Errors
    /// As [`Self::model_shape`]; the device fails.
    pub(crate) fn measure_steps(
        &self,
        plan: &Plan,
        steps: u64,
        trace: &mut Trace,
    ) -> anyhow::Result<StepReport> {
        match self {
            Self::Corpus => prepare(plan, |training| {
                let bench = StepBench {
                    plan: &training.plan,
                    shape: &training.plan.model_shape(&training.tokenizers)?,
                    with_stream: true,
                    steps,
                    trace,
                };
                let task = configured(training.setting()?, &training.data)?;
                Ok(bench.run(&task)?)
            }),
            Self::Random { shapes, vocab_size } => {
                let (task, shape) = RandomPairs::new(plan, shapes, *vocab_size)?;
                let bench = StepBench {
                    plan,
                    shape: &shape,
                    with_stream: false,
                    steps,
                    trace,
                };
                Ok(bench.run(&task)?)
            }
        }
    }

    /// The mean times of such steps over all batches.
    ///
    /// # Errors
    /// As [`Self::model_shape`]; the device fails.
    pub fn time_steps(
        &self,
        plan: &Plan,
        steps: u64,
        trace: &mut Trace,
    ) -> anyhow::Result<StepTimes> {
        Ok(self.measure_steps(plan, steps, trace)?.times())
    }
}

/// Prepares a training as `polyglow train` does, in a directory that is removed again.
fn prepare<R>(plan: &Plan, work: impl FnOnce(&Training) -> anyhow::Result<R>) -> anyhow::Result<R> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let training = Training::prepare(plan.config.clone(), directory.path(), &mut Silent)?;
    work(&training)
}
