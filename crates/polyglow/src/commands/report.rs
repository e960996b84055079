//! `polyglow report`: a page on one run or several.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use polyglow_view::report::{RunSummary, compare, render};

/// What `polyglow report` is asked to do.
#[derive(Clone, Debug)]
pub struct ReportArgs {
    /// Directories of the runs; the others are compared with the first.
    pub runs: Vec<PathBuf>,
    /// The page to write.
    pub out: PathBuf,
}

/// Writes one self-contained HTML file: curves, scores, data, sample translations over time, configuration; of several
/// runs side by side, with a significance test.
///
/// # Errors
/// One of the runs is not there or damaged; the page cannot be written.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let runs: Vec<RunSummary> = args.runs.iter().map(|run| RunSummary::read(run)).collect::<Result<_, _>>()?;
    let comparisons = if runs.len() > 1 { compare(&runs)? } else { Vec::new() };
    let page = render(&runs, &comparisons);
    fs::write(&args.out, page).with_context(|| format!("cannot write `{}`", args.out.display()))?;
    tracing::info!("wrote `{}`", args.out.display());
    Ok(())
}
