//! `polyglow bench`: how fast this machine trains, searches, and prepares text.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::{Arch, Task};
use serde::Serialize;

use crate::bench::{
    BucketReport, DataReport, EmbeddingReport, Machine, Material, SearchReport, Spread, StepReport, Trace, bench_data,
    bench_embedding, bench_search, bench_step,
};
use crate::failure::{usage, with_hint};
use polyglow_train::config::Config;
use polyglow_train::device;
use polyglow_train::workload::BatchShape;

/// What stands in for a config: Transformer-Tiny with the optimizer of the Multi30k recipe.
const TINY: &str = "data.corpus = 'mini-en-de'\nmodel.preset = 'tiny'\ntrain.max_steps = 1\ntrain.clip_norm = 25.0\n";
/// Batches of about 2 048 tokens a side.
const SHAPES: [BatchShape; 3] = [
    BatchShape { rows: 256, src_len: 8, tgt_len: 8 },
    BatchShape { rows: 128, src_len: 16, tgt_len: 16 },
    BatchShape { rows: 64, src_len: 32, tgt_len: 32 },
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Training steps.
    Step,
    /// Search.
    Search,
    /// Text to batches.
    Data,
    /// Two ways to look up embeddings.
    Embedding,
}

/// What `polyglow bench` is asked to do.
#[derive(Clone, Debug)]
pub struct BenchArgs {
    /// What to measure.
    pub part: Part,
    /// The config whose model, text and batches are measured; Transformer-Tiny on random sentences without one.
    pub config: Option<PathBuf>,
    /// Keys to override, as `section.key=value`.
    pub overrides: Vec<String>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Batches of random sentences, in place of the config's text.
    pub shapes: Vec<BatchShape>,
    /// Tokens of the vocabulary of random sentences.
    pub vocab_size: usize,
    /// Whether searches are also measured with matrices of 8 bits.
    pub int8: bool,
    /// Measured repetitions of everything.
    pub repetitions: u64,
    /// Whether to print as JSON.
    pub json: bool,
    /// File for a timeline.
    pub profile: Option<PathBuf>,
}

/// Measures, prints what was found, and writes the timeline that was asked for.
///
/// # Errors
/// The config is wrong (exit code 2); the device is not there or fails; text cannot be read.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::load(path, &args.overrides)?,
        None => Config::from_text(TINY, &args.overrides)?,
    };
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let writes = matches!(config.model.task(), Task::Translation | Task::Language);
    if !writes && (args.config.is_none() || args.part == Part::Search) {
        let arch = config.model.arch.name();
        let error = usage(anyhow!(
            "`model.arch = \"{arch}\"` has nothing to search, and no random batches to measure without a config"
        ));
        return Err(with_hint(error, "`polyglow bench step CONFIG` measures its training"));
    }
    if args.int8 && (args.part != Part::Search || config.model.arch != Arch::Transformer) {
        let error = anyhow!("`--int8` is for `bench search` with `model.arch = \"transformer\"`");
        return Err(with_hint(usage(error), "leave it out: nothing else has products of 8 bits"));
    }
    let mut trace = Trace::default();
    if let Some(path) = &args.profile {
        // What cannot be written should not cost a measurement.
        trace.write(path)?;
    }
    match args.part {
        Part::Step => {
            let device = device::open(&config.device)?;
            let report = bench_step(&config, &material(args, &config)?, &device, args.repetitions, &mut trace)?;
            print(args, &report, print_steps)?;
        }
        Part::Search => {
            let device = device::open(&config.device)?;
            let shape = material(args, &config)?.model;
            if args.int8 && !has_int8_kernels(&device) {
                let error = anyhow!("`{}` has no products of 8 bits", config.device);
                return Err(with_hint(usage(error), "leave `--int8` out, or give `--device flex`"));
            }
            let bits: &[usize] = if args.int8 { &[32, 8] } else { &[32] };
            let report = bench_search(&config, &shape, &device, bits, args.repetitions, &mut trace)?;
            print(args, &report, print_searches)?;
        }
        Part::Data => print(args, &bench_data(&config, &mut trace)?, print_data)?,
        Part::Embedding => {
            let device = device::open(&config.device)?;
            let report = bench_embedding(&config, &material(args, &config)?, &device, args.repetitions)?;
            print(args, &report, print_embedding)?;
        }
    }
    args.profile.as_ref().map_or(Ok(()), |path| trace.write(path))
}

fn material(args: &BenchArgs, config: &Config) -> anyhow::Result<Material> {
    match (&args.config, &*args.shapes) {
        (Some(_), _) => Material::of_corpus(config),
        (None, []) => Material::random(config, &SHAPES, args.vocab_size),
        (None, shapes) => Material::random(config, shapes, args.vocab_size),
    }
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

fn print_steps(out: &mut dyn Write, report: &StepReport) -> io::Result<()> {
    print_machine(out, &report.machine)?;
    writeln!(out, "{} parameters; times in milliseconds: median (least to most)\n", report.parameters)?;
    writeln!(
        out,
        "{:>14} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>6}",
        "BATCH", "STEP", "UPLOAD", "FORWARD", "BACKWARD", "UPDATE", "READ", "TOKENS/S", "GFLOP/S", "PEAK"
    )?;
    for bucket in &report.buckets {
        let BucketReport {
            batch: BatchShape { rows, src_len, tgt_len }, upload, forward, backward, update, read, ..
        } = bucket;
        let median = |spread: &Spread| format!("{:.2}", spread.median * 1e3);
        writeln!(
            out,
            "{:>14} {:>22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9.0} {:>8.1} {:>4.0} %",
            format!("{rows}x{src_len}x{tgt_len}"),
            milliseconds(&bucket.step),
            median(upload),
            median(forward),
            median(backward),
            median(update),
            median(read),
            bucket.target_tokens_per_second,
            bucket.flops_per_second / 1e9,
            bucket.share_of_peak * 1e2
        )?;
    }
    if let Some(stream) = &report.stream {
        writeln!(
            out,
            "\nover the corpus: {:.0} target tokens/s in {} steps; waiting for data {}",
            stream.target_tokens_per_second,
            stream.steps,
            milliseconds(&stream.data_wait)
        )?;
    }
    print_memory(out, report.peak_memory)
}

fn print_searches(out: &mut dyn Write, report: &SearchReport) -> io::Result<()> {
    print_machine(out, &report.machine)?;
    writeln!(out, "{} source and {} target tokens; times in milliseconds\n", report.src_len, report.tgt_len)?;
    writeln!(out, "{:>9} {:>5} {:>5} {:>26} {:>9}", "SENTENCES", "BEAM", "BITS", "TIME", "TOKENS/S")?;
    for times in &report.searches {
        let (time, rate) = (milliseconds(&times.time), times.target_tokens_per_second);
        writeln!(out, "{:>9} {:>5} {:>5} {time:>26} {rate:>9.0}", times.batch, times.beam_size, times.bits)?;
    }
    print_memory(out, report.peak_memory)
}

fn print_data(out: &mut dyn Write, report: &DataReport) -> io::Result<()> {
    let DataReport { threads, pairs, bytes, batches, .. } = report;
    writeln!(out, "{pairs} pairs, {bytes} bytes, {threads} threads")?;
    writeln!(out, "read        {:>10.0} pairs/s", report.read_pairs_per_second)?;
    writeln!(out, "vocabulary  {:>10.2} s", report.vocabulary_seconds)?;
    writeln!(out, "encode      {:>10.0} pairs/s", report.encode_pairs_per_second)?;
    writeln!(out, "cache       {:>10.0} pairs/s", report.cache_pairs_per_second)?;
    writeln!(out, "plan        {:>10.3} s for {batches} batches", report.plan_seconds)?;
    let (rate, tokens) = (report.batched_pairs_per_second, report.target_tokens_per_second);
    writeln!(out, "batches     {rate:>10.0} pairs/s, {tokens:.0} target tokens/s")?;
    print_memory(out, report.peak_memory)
}

fn print_embedding(out: &mut dyn Write, report: &EmbeddingReport) -> io::Result<()> {
    let EmbeddingReport { device, vocab_size, d_model, lookups } = report;
    writeln!(out, "{device}; {vocab_size} rows of {d_model}; forward and backward, in milliseconds\n")?;
    for times in lookups {
        let BatchShape { rows, src_len, .. } = times.batch;
        writeln!(out, "{:>14} {:>8} {:>26}", format!("{rows}x{src_len}"), times.lookup, milliseconds(&times.time))?;
    }
    Ok(())
}

fn print_machine(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let Machine { device, threads, matmul_peak, .. } = machine;
    writeln!(out, "{device}, {threads} threads; matrix products reach {:.1} GFLOP/s", matmul_peak / 1e9)
}

fn print_memory(out: &mut dyn Write, peak_memory: Option<u64>) -> io::Result<()> {
    peak_memory.map_or(Ok(()), |bytes| writeln!(out, "peak memory {} MiB", bytes >> 20))
}

fn milliseconds(spread: &Spread) -> String {
    let Spread { median, least, most } = spread;
    format!("{:.2} ({:.2} to {:.2})", median * 1e3, least * 1e3, most * 1e3)
}
