//! `polyglow check`: a test of the config, the data and one step, before training.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::Args;
use polyglow_train::Observer;
use polyglow_train::train::Training;
use serde::Serialize;

use super::config::ConfigArgs;
use crate::inspection::{Inspection, inspect};
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

/// Shows what takes long, and writes no log: the directory is gone at the end.
struct Passing(Progress);

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
}

/// Does everything that a training does before its first step, and one step; leaves no file behind, and prints a
/// report. Warnings are part of the report, not failures.
///
/// # Errors
/// Whatever would stop the training: a wrong config (exit code 2), a device that does not exist, text that cannot be
/// read, a step that fails.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let mut observer = Passing(Progress::new(Screen::Lines));
    let training = Training::prepare(args.source.load()?, directory.path(), &mut observer)?;
    let inspection = inspect(&training)?;
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
