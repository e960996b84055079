//! `polyglow check`: a test of the config, the data and one step, before training.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::Args;
use polyglow_data::file;
use polyglow_predict::tasks::facts;
use polyglow_predict::wording::counted;
use polyglow_train::Observer;
use polyglow_train::train::Training;
use serde::Serialize;

use super::clean;
use super::config::{ConfigArgs, default_run};
use super::new::warn_of_stale;
use crate::failure::usage;
use crate::inspection::{Check, DETECTORS, Inspection, duration, inspect};
use crate::program::with_own_commands;
use crate::progress::{Progress, Screen};
use crate::proposal::{Budget, Proposal, propose_for, seconds};

/// The arguments of `polyglow check`.
#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    source: ConfigArgs,
    /// Propose sizes and settings for a training of so many hours on this machine
    #[arg(long, value_name = "H")]
    hours: Option<f64>,
    /// Print the report as JSON, with every line number of a finding
    #[arg(long)]
    json: bool,
    /// Write the lines of each finding into this directory, one `FILE:LINE` a line, such as
    /// `train.duplicates.txt`
    #[arg(long, value_name = "DIR")]
    list: Option<PathBuf>,
}

/// Shows progress as a training does, but writes no log: its directory is removed at the end.
pub(super) struct Passing(Progress);

impl Passing {
    pub(super) fn new() -> Self {
        Self(Progress::new(Screen::Lines))
    }
}

impl Observer for Passing {
    fn activity(&mut self, what: &str) {
        self.0.activity(what);
    }

    fn idle(&mut self) {
        self.0.idle();
    }
}

/// The JSON report.
#[derive(Serialize)]
struct Report<'a> {
    config: &'a Path,
    #[serde(flatten)]
    inspection: &'a Inspection,
    /// The effect of `data.clean = true`, if the config does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cleaning: Option<&'a clean::Report>,
    /// The proposal for `--hours`.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<&'a Proposal>,
}

/// Does everything that a training does before its first step, and some steps; leaves no file
/// behind, and prints a report. Warnings are part of the report, not failures.
///
/// # Errors
/// Whatever would stop the training: a wrong config (exit code 2), a device that does not exist,
/// text that cannot be read, a step that fails.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let config = args.source.load()?;
    if args.hours.is_some() && !facts(config.model.task()).translates() {
        return Err(usage(anyhow!(
            "`--hours` proposes settings of models that translate, and this one does not"
        )));
    }
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let started = Instant::now();
    let mut observer = Passing::new();
    let training = Training::prepare(config, directory.path(), &mut observer)?;
    let mut inspection = inspect(&training, &default_run(&args.source.config))?;
    inspection
        .warnings
        .extend(warn_of_stale(&training.plan.config.data)?);
    let before = started.elapsed().as_secs_f64();
    let num_pairs = inspection.splits[0].pairs;
    let cleaning = clean::preview(&training.plan.config, &training.text.train, num_pairs)?;
    let proposal = match args.hours {
        Some(hours) => {
            let seconds = seconds(hours)?;
            let budget = Budget { seconds, before };
            Some(propose_for(&training, &inspection, budget, &mut observer)?)
        }
        None => None,
    };
    if let Some(directory) = &args.list {
        write_lists(directory, &inspection)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        let report = Report {
            config: &args.source.config,
            inspection: &inspection,
            cleaning: cleaning.as_ref(),
            proposal: proposal.as_ref(),
        };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    write!(out, "{inspection}")?;
    for warning in &inspection.warnings {
        writeln!(
            out,
            "warning: {}\n  hint: {}",
            warning.message, warning.hint
        )?;
    }
    if let Some(cleaning) = &cleaning {
        writeln!(
            out,
            "\nwhat `data.clean = true` would do (nothing was changed):"
        )?;
        clean::print(&mut out, cleaning)?;
        let hint = format!(
            "`polyglow clean {} --explain FILE:LINE` says why",
            args.source
        );
        writeln!(out, "{}", with_own_commands(&hint))?;
    }
    if training.plan.config.data.clean.is_some() {
        let hint = format!(
            "`polyglow clean {} --dry-run` shows what `data.clean` removes, with examples",
            args.source
        );
        writeln!(out, "{}", with_own_commands(&hint))?;
    }
    if let Some(proposal) = proposal {
        writeln!(out, "\nproposed for {}:", duration(proposal.seconds))?;
        proposal
            .summary
            .iter()
            .try_for_each(|line| writeln!(out, "# {line}"))?;
        write!(out, "{}", proposal.toml(""))?;
    }
    Ok(())
}

/// Writes a file for each finding, with all of its lines, and removes those of an earlier check
/// that found more.
fn write_lists(directory: &Path, inspection: &Inspection) -> anyhow::Result<()> {
    fs_err::create_dir_all(directory)?;
    for split in &inspection.splits {
        for detector in DETECTORS {
            let old = list_path(directory, &split.name, detector.check);
            if old.is_file() {
                fs_err::remove_file(old)?;
            }
        }
    }
    for finding in &inspection.findings {
        let path = list_path(directory, &finding.split, finding.check);
        let mut text = String::new();
        for (file, lines) in &finding.lines {
            for line in lines {
                text.extend([file, ":", &line.to_string(), "\n"]);
            }
        }
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        tracing::info!(
            "wrote `{}`: {}",
            path.display(),
            counted(finding.count, "line")
        );
    }
    Ok(())
}

/// Returns the path of the list of a finding, such as `train.duplicates.txt`.
fn list_path(directory: &Path, split: &str, check: Check) -> PathBuf {
    directory.join(format!("{split}.{}.txt", check.name()))
}
