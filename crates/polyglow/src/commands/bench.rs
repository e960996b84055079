//! `polyglow bench`: how fast this machine trains, searches, and prepares text.

mod args;
mod table;

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::{Arch, Precision, parameter};
use polyglow_predict::tasks::facts;
use polyglow_train::config::Config;
use polyglow_train::tasks::built_in;
use polyglow_train::train::Training;
#[cfg(feature = "gpu")]
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Silent};
use serde::Serialize;

#[cfg(feature = "gpu")]
use crate::bench::bench_launches;
use crate::bench::{
    BucketReport, Network, RandomPairs, RanksReport, StepBench, StepReport, Trace, Work,
    bench_data, bench_search,
};
use crate::failure::{usage, with_hint};
pub(crate) use args::BenchArgs;
use args::Part;
#[cfg(feature = "gpu")]
use table::print_launches;
use table::{print_data, print_ranks, print_searches, print_steps};

/// The default config: Transformer-Tiny with the optimizer of the Multi30k recipe.
const TINY: &str = "data.corpus = 'mini-en-de'\nmodel.preset = 'tiny'\ntrain.max_steps = 1\ntrain.clip_norm = 25.0\n";
/// The batch of which launches are counted: 4 096 tokens per side.
#[cfg(feature = "gpu")]
const COUNTED: BatchShape = BatchShape {
    rows: 256,
    src_len: 16,
    tgt_len: 16,
};
/// Words of random sentences: as many as the vocabulary of the Multi30k recipe has.
const VOCAB_SIZE: usize = 9708;

/// Measures, prints the report, and writes the timeline if asked to.
///
/// # Errors
/// The config is wrong (exit code 2); the device does not exist or fails; text cannot be read.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if let Some(option) = args.unused() {
        let error = usage(anyhow!(
            "`{option}` changes nothing in this part of `bench`"
        ));
        return Err(with_hint(
            error,
            "leave it out; `polyglow bench --help` says which part each option is of",
        ));
    }
    let random = !args.shapes.is_empty() || args.vocab_size.is_some();
    if random && args.config.is_some() && args.part != Part::Launches {
        let error = usage(anyhow!(
            "`--shape` and `--vocab-size` are of random sentences, and a config has text of its own"
        ));
        return Err(with_hint(
            error,
            "leave out either the config or these options",
        ));
    }
    let mut config = if let Some(path) = &args.config {
        Config::load(path, &args.overrides)?
    } else {
        let preset = args
            .model
            .as_ref()
            .map(|preset| format!("model.preset={preset}"));
        let overrides: Vec<String> = preset
            .into_iter()
            .chain(args.overrides.iter().cloned())
            .collect();
        Config::from_text(TINY, &overrides)?
    };
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let facts = facts(config.model.task());
    if facts.describes_images() && (args.config.is_none() || args.part == Part::Search) {
        let error = usage(anyhow!(
            "random batches and searches are made of ids, and this model reads images"
        ));
        return Err(with_hint(
            error,
            "`polyglow bench step CONFIG` measures its training",
        ));
    }
    if !facts.writes && (args.config.is_none() || args.part == Part::Search) {
        let arch = config.model.arch.name();
        let error = usage(anyhow!(
            "`model.arch = \"{arch}\"` has nothing to search, and no random batches to measure without a config"
        ));
        return Err(with_hint(
            error,
            "`polyglow bench step CONFIG` measures its training",
        ));
    }
    if args.part == Part::Data && facts.reads_images() {
        let error = usage(anyhow!(
            "`bench data` measures how text becomes batches, and this model reads images"
        ));
        return Err(with_hint(
            error,
            "`polyglow bench step CONFIG` measures its training",
        ));
    }
    if args.int8 && config.model.arch != Arch::Transformer {
        let error = anyhow!("`--int8` is for `bench search` with `model.arch = \"transformer\"`");
        return Err(with_hint(
            usage(error),
            "leave `--int8` out: 8-bit matrices are measured for translation alone",
        ));
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
                Some(_) => prepare(&plan, |training| {
                    Ok(training.plan.model_shape(&training.tokenizers)?)
                })?,
                None => {
                    RandomPairs::new(&plan, args.shapes(), args.vocab_size.unwrap_or(VOCAB_SIZE))?.1
                }
            };
            if args.int8 && !has_int8_kernels(&plan.device) {
                let error = anyhow!("`{}` has no 8-bit matrix products", plan.config.device);
                return Err(with_hint(
                    usage(error),
                    "leave `--int8` out, or give `--device flex`",
                ));
            }
            let bits: &[usize] = if args.int8 { &[32, 8] } else { &[32] };
            print(
                args,
                &bench_search(&plan, &shape, bits, args.repetitions(), &mut trace)?,
                print_searches,
            )?;
        }
        Part::Ranks => print(args, &bench_ranks(args, &plan, &mut trace)?, print_ranks)?,
        Part::Data => print(args, &bench_data(&plan, &mut trace)?, print_data)?,
        Part::Launches => count_launches(args, &plan)?,
    }
    args.profile
        .as_ref()
        .map_or(Ok(()), |path| trace.write(path))
}

/// What a GPU has to do in a step on random sentences, for the model and the training that a config
/// names.
#[cfg(feature = "gpu")]
fn count_launches(args: &BenchArgs, plan: &Plan) -> anyhow::Result<()> {
    let batch = args.shapes.first().copied().unwrap_or(COUNTED);
    print(
        args,
        &bench_launches(plan, batch, args.vocab_size.unwrap_or(VOCAB_SIZE))?,
        print_launches,
    )
}

#[cfg(not(feature = "gpu"))]
fn count_launches(_: &BenchArgs, _: &Plan) -> anyhow::Result<()> {
    let error = usage(anyhow!(
        "`bench launches` needs a GPU's compiler, and this build has none"
    ));
    Err(with_hint(
        error,
        "build it in: `cargo run --release --features wgpu -- bench launches --device wgpu:cpu`",
    ))
}

/// Steps on the training text that the config names, or on random sentences.
fn bench_step(args: &BenchArgs, plan: &Plan, trace: &mut Trace) -> anyhow::Result<StepReport> {
    let (steps, with_stream) = (args.repetitions(), args.config.is_some());
    if !with_stream {
        let (task, shape) =
            RandomPairs::new(plan, args.shapes(), args.vocab_size.unwrap_or(VOCAB_SIZE))?;
        return Ok(StepBench {
            plan,
            shape: &shape,
            with_stream,
            steps,
            trace,
        }
        .run(&task)?);
    }
    prepare(plan, |training| {
        let shape = training.plan.model_shape(&training.tokenizers)?;
        let bench = StepBench {
            plan: &training.plan,
            shape: &shape,
            with_stream,
            steps,
            trace,
        };
        let task = built_in(training.setting()?, &training.data)?;
        Ok(bench.run(&task)?)
    })
}

/// What several processes gain, each with a step as it takes here, or as long as somebody says.
fn bench_ranks(args: &BenchArgs, plan: &Plan, trace: &mut Trace) -> anyhow::Result<RanksReport> {
    let network = Network {
        bits_per_second: args.network.unwrap_or(10e9),
        latency: args.latency.unwrap_or(20.0) * 1e-6,
        host_bytes_per_second: args.host.unwrap_or(0.75) * 1e9,
    };
    let bytes_per_value = if plan.config.train.exchange_precision == Precision::Bf16 {
        2
    } else {
        4
    };
    let work = if let Some(milliseconds) = args.micro_batch {
        let shape = match &args.config {
            Some(_) => prepare(plan, |training| {
                Ok(training.plan.model_shape(&training.tokenizers)?)
            })?,
            None => RandomPairs::new(plan, args.shapes(), args.vocab_size.unwrap_or(VOCAB_SIZE))?.1,
        };
        let parameters = parameter::count(&shape.init(plan.config.seed, &plan.device));
        Work {
            parameters,
            micro_batch_seconds: milliseconds * 1e-3,
            update_seconds: 0.0,
            bytes_per_value,
        }
    } else {
        let StepReport {
            buckets,
            parameters,
            ..
        } = bench_step(args, plan, trace)?;
        let mean = |of: fn(&BucketReport) -> f64| {
            buckets.iter().map(of).sum::<f64>() / buckets.len() as f64
        };
        let update_seconds = mean(|bucket| bucket.update.median);
        let micro_batch_seconds = mean(|bucket| bucket.step.median) - update_seconds;
        Work {
            parameters,
            micro_batch_seconds,
            update_seconds,
            bytes_per_value,
        }
    };
    Ok(RanksReport::new(work, network))
}

/// Prepares a training as `polyglow train` does, in a directory that is removed again.
fn prepare<R>(plan: &Plan, work: impl FnOnce(&Training) -> anyhow::Result<R>) -> anyhow::Result<R> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    work(&Training::prepare(
        plan.config.clone(),
        directory.path(),
        &mut Silent,
    )?)
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
