//! `polyglow bench`: how fast this machine trains, searches, and prepares text.

mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::{Arch, Precision, Task, parameter};
use polyglow_train::config::Config;
use polyglow_train::predict::model::model_shape;
use polyglow_train::tasks::{Visitor, with_task};
use polyglow_train::train::Training;
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Silent};
use serde::Serialize;

#[cfg(feature = "gpu")]
use crate::bench::bench_launches;
use crate::bench::{
    BucketReport, Network, RandomPairs, RanksReport, StepBench, StepReport, Trace, Work, bench_data, bench_search,
};
use crate::failure::{usage, with_hint};
#[cfg(feature = "gpu")]
use table::print_launches;
use table::{print_data, print_ranks, print_searches, print_steps};

/// The default config: Transformer-Tiny with the optimizer of the Multi30k recipe.
const TINY: &str = "data.corpus = 'mini-en-de'\nmodel.preset = 'tiny'\ntrain.max_steps = 1\ntrain.clip_norm = 25.0\n";
/// Batches of about 2 048 tokens per side.
const SHAPES: [BatchShape; 3] = [
    BatchShape { rows: 256, src_len: 8, tgt_len: 8 },
    BatchShape { rows: 128, src_len: 16, tgt_len: 16 },
    BatchShape { rows: 64, src_len: 32, tgt_len: 32 },
];

/// The batch of which launches are counted: 4 096 tokens per side.
#[cfg(feature = "gpu")]
const COUNTED: BatchShape = BatchShape { rows: 256, src_len: 16, tgt_len: 16 };
/// Words of random sentences: as many as the vocabulary of the Multi30k recipe has.
const VOCAB_SIZE: usize = 9708;

/// Longest side and most rows of a batch, and most target or source positions in it.
const MAX_ROWS: usize = 1 << 16;
const MAX_POSITIONS: usize = 1 << 24;

/// What `polyglow bench` is asked to do.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// `step`: training steps; `search`: greedy and beam search; `data`: from text to batches; `launches`: what a GPU has to do in
    /// a step, counted without a GPU; `ranks`: what several processes would gain, by a model of the network
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
    /// With `step`, `launches` and `ranks`: a batch of random sentences, as rows x source tokens x target tokens; may be repeated,
    /// but for `launches`
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = shape)]
    shapes: Vec<BatchShape>,
    /// With all parts but `data`: vocabulary size of random sentences [default: 9708]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(5..1 << 24))]
    vocab_size: Option<usize>,
    /// With `step`, `search` and `ranks`: measured repetitions, after a warm-up [default: 10]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..1_000_000))]
    repetitions: Option<u64>,
    /// With `search`: also measure 8-bit matrices, as `polyglow quantize` makes them
    #[arg(long)]
    int8: bool,
    /// A shape of the model, as `model.preset` has it
    #[arg(long, value_name = "PRESET", conflicts_with = "config")]
    model: Option<String>,
    /// With `ranks`: bits a second between two machines [default: 10G]
    #[arg(long, value_name = "RATE", value_parser = bits)]
    network: Option<f64>,
    /// With `ranks`: microseconds that a message takes besides its bytes [default: 20]
    #[arg(long, value_name = "N", value_parser = positive)]
    latency: Option<f64>,
    /// With `ranks`: gigabytes a second that a rank copies, sends and adds [default: 0.75, which was measured with TCP on one core
    /// of a virtual machine]
    #[arg(long, value_name = "RATE", value_parser = positive)]
    host: Option<f64>,
    /// With `ranks`: milliseconds of a micro-batch, forward and backward, on another machine [default: measured on this one]
    #[arg(long, value_name = "N", value_parser = positive)]
    micro_batch: Option<f64>,
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
    Launches,
    Ranks,
}

/// The first option that was given and that this part does not have.
fn unused(args: &BenchArgs) -> Option<&'static str> {
    use Part::{Launches, Ranks, Search, Step};
    let of_ranks: &[Part] = &[Ranks];
    let options = [
        ("--shape", !args.shapes.is_empty(), &[Step, Launches, Ranks][..]),
        ("--vocab-size", args.vocab_size.is_some(), &[Step, Search, Launches, Ranks]),
        ("--repetitions", args.repetitions.is_some(), &[Step, Search, Ranks]),
        ("--int8", args.int8, &[Search]),
        ("--network", args.network.is_some(), of_ranks),
        ("--latency", args.latency.is_some(), of_ranks),
        ("--host", args.host.is_some(), of_ranks),
        ("--micro-batch", args.micro_batch.is_some(), of_ranks),
    ];
    options.into_iter().find(|(_, given, parts)| *given && !parts.contains(&args.part)).map(|(name, ..)| name)
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

/// Reads `10G` or `2.5M`, in bits a second.
fn bits(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let unit = match unit {
        "G" | "g" => 1e9,
        "M" | "m" => 1e6,
        _ => return Err("expected a number and a unit, as in 10G or 100M".to_owned()),
    };
    let number: Option<f64> = number.parse().ok().filter(|number| *number > 0.0 && f64::is_finite(*number));
    number.map(|number| number * unit).ok_or_else(|| "expected a number above 0 before the unit, as in 10G".to_owned())
}

/// Reads a number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|number| *number > 0.0 && f64::is_finite(*number));
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Measures, prints the report, and writes the timeline if asked to.
///
/// # Errors
/// The config is wrong (exit code 2); the device does not exist or fails; text cannot be read.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if let Some(option) = unused(args) {
        let error = usage(anyhow!("`{option}` changes nothing in this part of `bench`"));
        return Err(with_hint(error, "leave it out; `polyglow bench --help` says which part each option is of"));
    }
    let random = !args.shapes.is_empty() || args.vocab_size.is_some();
    if random && args.config.is_some() && args.part != Part::Launches {
        let error =
            usage(anyhow!("`--shape` and `--vocab-size` are of random sentences, and a config has text of its own"));
        return Err(with_hint(error, "leave out either the config or these options"));
    }
    let mut config = if let Some(path) = &args.config {
        Config::load(path, &args.overrides)?
    } else {
        let preset = args.model.as_ref().map(|preset| format!("model.preset={preset}"));
        let overrides: Vec<String> = preset.into_iter().chain(args.overrides.iter().cloned()).collect();
        Config::from_text(TINY, &overrides)?
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
    if args.int8 && config.model.arch != Arch::Transformer {
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
                None => RandomPairs::new(&plan, shapes(args), args.vocab_size.unwrap_or(VOCAB_SIZE))?.1,
            };
            if args.int8 && !has_int8_kernels(&plan.device) {
                let error = anyhow!("`{}` has no 8-bit matrix products", plan.config.device);
                return Err(with_hint(usage(error), "leave `--int8` out, or give `--device flex`"));
            }
            let bits: &[usize] = if args.int8 { &[32, 8] } else { &[32] };
            print(args, &bench_search(&plan, &shape, bits, repetitions(args), &mut trace)?, print_searches)?;
        }
        Part::Ranks => print(args, &bench_ranks(args, &plan, &mut trace)?, print_ranks)?,
        Part::Data => print(args, &bench_data(&plan, &mut trace)?, print_data)?,
        Part::Launches => count_launches(args, &plan)?,
    }
    args.profile.as_ref().map_or(Ok(()), |path| trace.write(path))
}

/// What a GPU has to do in a step on random sentences, for the model and the training that a config names.
#[cfg(feature = "gpu")]
fn count_launches(args: &BenchArgs, plan: &Plan) -> anyhow::Result<()> {
    let batch = args.shapes.first().copied().unwrap_or(COUNTED);
    print(args, &bench_launches(plan, batch, args.vocab_size.unwrap_or(VOCAB_SIZE))?, print_launches)
}

#[cfg(not(feature = "gpu"))]
fn count_launches(_: &BenchArgs, _: &Plan) -> anyhow::Result<()> {
    let error = usage(anyhow!("`bench launches` needs a GPU's compiler, and this build has none"));
    Err(with_hint(error, "build it in: `cargo run --release --features wgpu -- bench launches --device wgpu:cpu`"))
}

/// Steps on the training text that the config names, or on random sentences.
fn bench_step(args: &BenchArgs, plan: &Plan, trace: &mut Trace) -> anyhow::Result<StepReport> {
    let (steps, with_stream) = (repetitions(args), args.config.is_some());
    if !with_stream {
        let (task, shape) = RandomPairs::new(plan, shapes(args), args.vocab_size.unwrap_or(VOCAB_SIZE))?;
        return Ok(StepBench { plan, shape: &shape, with_stream, steps, trace }.visit(task)?);
    }
    prepare(plan, |training| {
        let shape = model_shape(&training.plan, &training.tokenizers)?;
        let bench = StepBench { plan: &training.plan, shape: &shape, with_stream, steps, trace };
        Ok(with_task(training.setting()?, &training.data, bench)?)
    })
}

/// What several processes gain, each with a step as it takes here, or as long as somebody says.
fn bench_ranks(args: &BenchArgs, plan: &Plan, trace: &mut Trace) -> anyhow::Result<RanksReport> {
    let network = Network {
        bits_per_second: args.network.unwrap_or(10e9),
        latency: args.latency.unwrap_or(20.0) * 1e-6,
        host_bytes_per_second: args.host.unwrap_or(0.75) * 1e9,
    };
    let bytes_per_value = if plan.config.train.exchange_precision == Precision::Bf16 { 2 } else { 4 };
    let work = if let Some(milliseconds) = args.micro_batch {
        let shape = match &args.config {
            Some(_) => prepare(plan, |training| Ok(model_shape(&training.plan, &training.tokenizers)?))?,
            None => RandomPairs::new(plan, shapes(args), args.vocab_size.unwrap_or(VOCAB_SIZE))?.1,
        };
        let parameters = parameter::count(&shape.init(plan.config.seed, &plan.device));
        Work { parameters, micro_batch_seconds: milliseconds * 1e-3, update_seconds: 0.0, bytes_per_value }
    } else {
        let StepReport { buckets, parameters, .. } = bench_step(args, plan, trace)?;
        let mean = |of: fn(&BucketReport) -> f64| buckets.iter().map(of).sum::<f64>() / buckets.len() as f64;
        let update_seconds = mean(|bucket| bucket.update.median);
        let micro_batch_seconds = mean(|bucket| bucket.step.median) - update_seconds;
        Work { parameters, micro_batch_seconds, update_seconds, bytes_per_value }
    };
    Ok(RanksReport::new(work, network))
}

/// Prepares a training as `polyglow train` does, in a directory that is removed again.
fn prepare<R>(plan: &Plan, work: impl FnOnce(&Training) -> anyhow::Result<R>) -> anyhow::Result<R> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    work(&Training::prepare(plan.config.clone(), directory.path(), &mut Silent)?)
}

fn repetitions(args: &BenchArgs) -> u64 {
    args.repetitions.unwrap_or(10)
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
