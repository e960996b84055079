//! `polyglow check`: everything that can go wrong before training does.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use serde::Serialize;

use crate::config::Config;
use crate::device;
use crate::inspection::{Inspection, SplitReport, Subject, inspect};

/// What `polyglow check` is asked to do.
#[derive(Clone, Debug)]
pub struct CheckArgs {
    /// The config file.
    pub config: PathBuf,
    /// Keys to override, as `section.key=value`.
    pub overrides: Vec<String>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Whether to print the report as JSON.
    pub json: bool,
}

/// The JSON report.
#[derive(Serialize)]
struct Report<'a> {
    config: &'a Path,
    device: &'a str,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

/// Does all that a training does before its first step and one step of it, leaves nothing behind, and prints what it
/// found. Warnings are part of the report, and no failure.
///
/// # Errors
/// Whatever would stop the training: a wrong config (exit code 2), a device that is not there, text that cannot be
/// read, a step that fails.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?;
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let device = device::open(&config.device)?;
    let train = Corpus::open(&config.data, Split::Train)?;
    let tokenizers = Tokenizers::train(&config.tokenizer, &train, &mut |_, _| {})?;
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (path, filter) = (directory.path().join("train.ids"), Filter::new(&config.data));
    let (cache, _) = IdCache::open_or_build(&path, &train, &tokenizers, Some(&filter), &mut |_, _| {})?;
    let subject = Subject { config: &config, train: &train, cache: &cache, tokenizers: &tokenizers, device: &device };
    let inspection = inspect(&subject)?;
    let report = Report { config: &args.config, device: &config.device, inspection: &inspection };
    let mut out = io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    write_splits(&mut out, &inspection.splits)?;
    write_model(&mut out, &report)?;
    for warning in &inspection.warnings {
        writeln!(out, "warning: {}\n  hint: {}", warning.message, warning.hint)?;
    }
    Ok(())
}

/// One line per split, and one per split and side.
fn write_splits(out: &mut impl Write, splits: &[SplitReport]) -> io::Result<()> {
    let width = splits.iter().map(|split| split.name.chars().count()).max().unwrap_or(0).max("SPLIT".len());
    writeln!(
        out,
        "{:width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "SPLIT", "PAIRS", "EMPTY", "TOO LONG", "RATIO", "DUPLICATES", "COPIES", "IN TRAIN"
    )?;
    for split in splits {
        let SplitReport { name, pairs, empty, too_long, ratio, duplicates, copies, in_train, .. } = split;
        let in_train = in_train.map_or_else(|| "-".to_owned(), |count| count.to_string());
        writeln!(
            out,
            "{name:width$} {pairs:>10} {empty:>10} {too_long:>10} {ratio:>10} {duplicates:>10} {copies:>10} {in_train:>10}"
        )?;
    }
    writeln!(
        out,
        "\n{:width$} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "SPLIT", "SIDE", "TOKENS", "MEAN", "LONGEST", "UNKNOWN"
    )?;
    for split in splits {
        for (side, found) in [("source", &split.src), ("target", &split.tgt)] {
            let unknown = format!("{:.2} %", 100.0 * found.unknown_rate);
            writeln!(
                out,
                "{:width$} {side:>10} {:>10} {:>10.1} {:>10} {unknown:>10}",
                split.name, found.tokens, found.mean_len, found.longest
            )?;
        }
    }
    writeln!(out)
}

fn write_model(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let Inspection { vocabulary, parameters, batches, memory, step, .. } = report.inspection;
    writeln!(out, "device      {}", report.device)?;
    if vocabulary.shared {
        writeln!(out, "vocabulary  {} tokens, shared", vocabulary.src)?;
    } else {
        writeln!(out, "vocabulary  {} source and {} target tokens", vocabulary.src, vocabulary.tgt)?;
    }
    writeln!(out, "model       {parameters} parameters")?;
    writeln!(
        out,
        "batches     {} an epoch, {:.1} % padding; {} steps are {:.1} epochs",
        batches.per_epoch,
        100.0 * batches.padding,
        batches.steps,
        batches.steps as f64 / batches.steps_per_epoch as f64
    )?;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "memory      about {:.0} MiB: weights {:.0}, gradients {:.0}, optimizer {:.0}, average {:.0}, activations {:.0}",
        mebibytes(memory.total),
        mebibytes(memory.weights),
        mebibytes(memory.gradients),
        mebibytes(memory.optimizer),
        mebibytes(memory.average),
        mebibytes(memory.activations)
    )?;
    let shape = batches.largest;
    writeln!(
        out,
        "step        {:.2} s on {} x {} rows of {} source and {} target positions; loss {:.3} nats per token",
        step.seconds, step.micro_batches, shape.rows, shape.src_len, shape.tgt_len, step.loss
    )
}
