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

use crate::inspection::{Inspection, Subject, inspect};
use crate::progress::{Progress, Screen};
use polyglow_train::config::{Config, MaxTokens};
use polyglow_train::device;
use polyglow_train::train::find_max_tokens;

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
    if config.train.max_tokens == MaxTokens::Auto {
        let found = find_max_tokens(&config, &tokenizers, &cache, &device, &mut Progress::new(Screen::Lines))?;
        config.train.max_tokens = MaxTokens::Tokens(found);
    }
    let subject = Subject { config: &config, train: &train, cache: &cache, tokenizers: &tokenizers, device: &device };
    let inspection = inspect(&subject)?;
    let mut out = io::stdout().lock();
    if args.json {
        let report = Report { config: &args.config, inspection: &inspection };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    write!(out, "{inspection}")?;
    for warning in &inspection.warnings {
        writeln!(out, "warning: {}\n  hint: {}", warning.message, warning.hint)?;
    }
    Ok(())
}
