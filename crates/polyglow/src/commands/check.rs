//! `polyglow check`: a test of the config, the data and one step, before training.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::Args;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_train::config::MaxTokens;
use polyglow_train::device;
use polyglow_train::train::find_max_tokens;
use serde::Serialize;

use super::config::ConfigArgs;
use crate::inspection::{Inspection, Subject, inspect};
use crate::progress::{Progress, Screen};

/// What `polyglow check` is asked to do.
#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    source: ConfigArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report.
#[derive(Serialize)]
struct Report<'a> {
    config: &'a Path,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

/// Does everything that a training does before its first step, and one step; leaves no file behind, and prints a
/// report. Warnings are part of the report, not failures.
///
/// # Errors
/// Whatever would stop the training: a wrong config (exit code 2), a device that does not exist, text that cannot be
/// read, a step that fails.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let mut config = args.source.load()?;
    let device = device::open(&config.device)?;
    let train = Corpus::open(&config.data, Split::Train)?;
    let tokenizers = Tokenizers::train(&config.tokenizer, &train, &mut |_, _| {})?;
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let (path, filter) = (directory.path().join("train.ids"), Filter::new(&config.data));
    let (cache, _) = IdCache::open_or_build(&path, &train, &tokenizers, Some(&filter), &mut |_, _| {})?;
    if config.train.max_tokens == MaxTokens::Auto {
        let found = find_max_tokens(&config, &tokenizers, &cache, &device, &mut Progress::new(Screen::Lines))?;
        config.train.max_tokens = MaxTokens::Tokens(found);
    }
    let subject = Subject { config: &config, train: &train, cache: &cache, tokenizers: &tokenizers, device: &device };
    let inspection = inspect(&subject)?;
    let mut out = io::stdout().lock();
    if args.json {
        let report = Report { config: &args.source.config, inspection: &inspection };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    write!(out, "{inspection}")?;
    for warning in &inspection.warnings {
        writeln!(out, "warning: {}\n  hint: {}", warning.message, warning.hint)?;
    }
    Ok(())
}
