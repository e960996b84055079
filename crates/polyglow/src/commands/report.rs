//! `polyglow report`: an HTML page about one or several runs.

use std::path::PathBuf;

use clap::Args;
use polyglow_view::report::{RunSummary, compare, render};

/// What `polyglow report` is asked to do.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Directories of the runs; the others are compared with the first
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

/// Writes one self-contained HTML file: curves, scores, data, sample translations over time, configuration; of several
/// runs side by side, with a significance test.
///
/// # Errors
/// One of the runs does not exist or is damaged; the page cannot be written.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let runs: Vec<RunSummary> = args.runs.iter().map(|run| RunSummary::read(run)).collect::<Result<_, _>>()?;
    let comparisons = if runs.len() > 1 { compare(&runs)? } else { Vec::new() };
    let page = render(&runs, &comparisons);
    fs_err::write(&args.out, page)?;
    tracing::info!("wrote `{}`", args.out.display());
    Ok(())
}
