//! `polyglow report`: an HTML page about one or several runs.

use std::collections::BTreeSet;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use polyglow_data::file;
use polyglow_train::run::tensorboard::EventFile;
use polyglow_train::run::{RunDirectory, records};
use polyglow_view::report::{RunSummary, compare, render};

use crate::failure::{usage, with_hint};

/// The arguments of `polyglow report`.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Directories of the runs; the others are compared with the first
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Write TensorBoard's event files into this directory instead, of several runs each into one
    /// of its own
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    tensorboard: Option<PathBuf>,
}

/// Writes one self-contained HTML file: curves, scores, data, sample translations over time,
/// configuration; of several runs side by side, with a significance test. Or the numbers for
/// TensorBoard.
///
/// # Errors
/// One of the runs does not exist or is damaged; the page cannot be written.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    if let Some(dir) = &args.tensorboard {
        return write_events(&args.runs, dir);
    }
    let runs: Vec<RunSummary> = args
        .runs
        .iter()
        .map(|run| RunSummary::read(run))
        .collect::<Result<_, _>>()?;
    let comparisons = if runs.len() > 1 {
        compare(&runs)?
    } else {
        Vec::new()
    };
    let page = render(&runs, &comparisons);
    file::write(&args.out, page.as_bytes())
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    tracing::info!("wrote `{}`", args.out.display());
    Ok(())
}

/// Writes the event files of runs: of one into the directory, of several each into one of its own
/// name.
fn write_events(runs: &[PathBuf], dir: &Path) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for run in runs {
        let run = RunDirectory::existing(run)?;
        let name = path::absolute(run.root())?
            .file_name()
            .unwrap_or_default()
            .to_owned();
        let dir = if runs.len() > 1 {
            dir.join(&name)
        } else {
            dir.to_owned()
        };
        if !names.insert(name) {
            let error = usage(anyhow!("two runs would go into `{}`", dir.display()));
            return Err(with_hint(
                error,
                "give one of them in a call of its own, with another directory",
            ));
        }
        let file = EventFile::create(&run, &dir, &records::read(&run.metrics_path())?)?;
        tracing::info!("wrote `{}`", file.path().display());
    }
    Ok(())
}
