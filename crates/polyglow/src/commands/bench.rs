//! `polyglow bench`: how fast this machine trains, searches, and prepares text.

mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::{Arch, Task};
use polyglow_train::config::Config;
use polyglow_train::predict::model::model_shape;
use polyglow_train::tasks::{Visitor, with_task};
use polyglow_train::train::Training;
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Silent};
use serde::Serialize;

use crate::bench::{RandomPairs, StepBench, StepReport, Trace, bench_data, bench_search};
use crate::failure::{usage, with_hint};
use table::{print_data, print_searches, print_steps};

/// The default config: Transformer-Tiny with the optimizer of the Multi30k recipe.
const TINY: &str = "data.corpus = 'mini-en-de'\nmodel.preset = 'tiny'\ntrain.max_steps = 1\ntrain.clip_norm = 25.0\n";
/// Batches of about 2 048 tokens per side.
const SHAPES: [BatchShape; 3] = [
    BatchShape { rows: 256, src_len: 8, tgt_len: 8 },
    BatchShape { rows: 128, src_len: 16, tgt_len: 16 },
    BatchShape { rows: 64, src_len: 32, tgt_len: 32 },
];

/// Longest side and most rows of a batch, and most target or source positions in it.
const MAX_ROWS: usize = 1 << 16;
const MAX_POSITIONS: usize = 1 << 24;

/// What `polyglow bench` is asked to do.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// `step`: training steps; `search`: greedy and beam search; `data`: from text to batches
    #[arg(value_enum)]
    part: Part,
    /// The config whose model and text to measure [default: Transformer-Tiny on random sentences]
    config: Option<PathBuf>,
    /// Override a key of the config; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A batch of random sentences, as rows x source tokens x target tokens; may be repeated
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = shape, conflicts_with = "config")]
    shapes: Vec<BatchShape>,
    /// Vocabulary size of the random sentences
    #[arg(long, value_name = "N", default_value = "9708", conflicts_with = "config",
          value_parser = RangedU64ValueParser::<usize>::new().range(5..1 << 24))]
    vocab_size: usize,
    /// Measured repetitions, after a warm-up
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = RangedU64ValueParser::<u64>::new().range(1..1_000_000))]
    repetitions: u64,
    /// With `search`: also measure 8-bit matrices, as `polyglow quantize` makes them
    #[arg(long)]
    int8: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write a timeline that Perfetto (ui.perfetto.dev) and Chrome open
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Step,
    Search,
    Data,
}

/// Reads `128x16x16`.
fn shape(text: &str) -> Result<BatchShape, String> {
    let size = |size: &str| size.parse().ok().filter(|size| (1..=MAX_ROWS).contains(size));
    let sizes: Option<Vec<usize>> = text.split('x').map(size).collect();
    match sizes.as_deref() {
        Some(&[rows, src_len, tgt_len]) if rows * src_len.max(tgt_len) <= MAX_POSITIONS => {
            Ok(BatchShape { rows, src_len, tgt_len })
        }
        _ => Err(format!(
            "expected three whole numbers, as in 128x16x16: from 1 to {MAX_ROWS} each, and at most {MAX_POSITIONS} \
             positions per side"
        )),
    }
}

/// Measures, prints the report, and writes the timeline if asked to.
///
/// # Errors
/// The config is wrong (exit code 2); the device does not exist or fails; text cannot be read.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::load(path, &args.overrides)?,
        None => Config::from_text(TINY, &args.overrides)?,
    };
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    if config.model.task() == Task::Captions && (args.config.is_none() || args.part == Part::Search) {
        let error = usage(anyhow!("random batches and searches are made of ids, and this model reads images"));
        return Err(with_hint(error, "`polyglow bench step CONFIG` measures its training"));
    }
    let writes = matches!(config.model.task(), Task::Translation | Task::Language);
    if !writes && (args.config.is_none() || args.part == Part::Search) {
        let arch = config.model.arch.name();
        let error = usage(anyhow!(
            "`model.arch = \"{arch}\"` has nothing to search, and no random batches to measure without a config"
        ));
        return Err(with_hint(error, "`polyglow bench step CONFIG` measures its training"));
    }
    if args.part == Part::Data && matches!(config.model.task(), Task::Images | Task::Captions) {
        let error = usage(anyhow!("`bench data` measures how text becomes batches, and this model reads images"));
        return Err(with_hint(error, "`polyglow bench step CONFIG` measures its training"));
    }
    if args.int8 && (args.part != Part::Search || config.model.arch != Arch::Transformer) {
        let error = anyhow!("`--int8` is for `bench search` with `model.arch = \"transformer\"`");
        return Err(with_hint(usage(error), "leave `--int8` out: 8-bit matrices are measured for translation alone"));
    }
    let mut trace = Trace::default();
    if let Some(path) = &args.profile {
        // Written first, so that a path that is not writable fails before the measurement.
        trace.write(path)?;
    }
    let plan = Plan::new(config)?;
    match args.part {
        Part::Step => print(args, &bench_step(args, &plan, &mut trace)?, print_steps)?,
        Part::Search => {
            let shape = match &args.config {
                Some(_) => prepare(&plan, |training| Ok(model_shape(&training.plan, &training.tokenizers)?))?,
                None => RandomPairs::new(&plan, shapes(args), args.vocab_size)?.1,
            };
            if args.int8 && !has_int8_kernels(&plan.device) {
                let error = anyhow!("`{}` has no 8-bit matrix products", plan.config.device);
                return Err(with_hint(usage(error), "leave `--int8` out, or give `--device flex`"));
            }
            let bits: &[usize] = if args.int8 { &[32, 8] } else { &[32] };
            print(args, &bench_search(&plan, &shape, bits, args.repetitions, &mut trace)?, print_searches)?;
        }
        Part::Data => print(args, &bench_data(&plan, &mut trace)?, print_data)?,
    }
    args.profile.as_ref().map_or(Ok(()), |path| trace.write(path))
}

/// Steps on the training text that the config names, or on random sentences.
fn bench_step(args: &BenchArgs, plan: &Plan, trace: &mut Trace) -> anyhow::Result<StepReport> {
    let (steps, with_stream) = (args.repetitions, args.config.is_some());
    if !with_stream {
        let (task, shape) = RandomPairs::new(plan, shapes(args), args.vocab_size)?;
        return Ok(StepBench { plan, shape: &shape, with_stream, steps, trace }.visit(task)?);
    }
    prepare(plan, |training| {
        let shape = model_shape(&training.plan, &training.tokenizers)?;
        let bench = StepBench { plan: &training.plan, shape: &shape, with_stream, steps, trace };
        Ok(with_task(training.setting()?, &training.data, bench)?)
    })
}

/// Prepares a training as `polyglow train` does, in a directory that is removed again.
fn prepare<R>(plan: &Plan, work: impl FnOnce(&Training) -> anyhow::Result<R>) -> anyhow::Result<R> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    work(&Training::prepare(plan.config.clone(), directory.path(), &mut Silent)?)
}

fn shapes(args: &BenchArgs) -> &[BatchShape] {
    if args.shapes.is_empty() { &SHAPES } else { &args.shapes }
}

fn print<R: Serialize>(
    args: &BenchArgs,
    report: &R,
    text: fn(&mut dyn Write, &R) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(report)?)?);
    }
    Ok(text(&mut out, report)?)
}
