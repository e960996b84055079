//! `polyglow metrics`: scores of a text against references, as sacreBLEU's command gives them.

mod input;
mod report;
mod scoring;
mod table;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use polyglow_metrics::significance::DEFAULT_SEED;
use polyglow_metrics::{BleuOptions, ChrfOptions, TerOptions};

use crate::failure::{usage, with_hint};
use input::Input;
use scoring::Scores;

/// What `polyglow metrics` is asked to do.
#[derive(Clone, Debug)]
pub struct MetricsArgs {
    /// The hypotheses, a segment a line; `-` is stdin, here and below.
    pub hypothesis: PathBuf,
    /// The references, a file each, or one file with all of them.
    pub references: Vec<PathBuf>,
    /// The hypotheses of further systems.
    pub systems: Vec<PathBuf>,
    /// How many references each line of the one reference file holds, with tabs between them.
    pub num_refs: usize,
    /// What to compute; each is computed once.
    pub metrics: Vec<MetricName>,
    /// How BLEU is computed.
    pub bleu: BleuOptions,
    /// How chrF is computed.
    pub chrf: ChrfOptions,
    /// How TER is computed.
    pub ter: TerOptions,
    /// What is scored.
    pub task: Task,
    /// Whether to say nothing about hypotheses that look tokenized.
    pub force: bool,
    /// How the scores are printed.
    pub style: Style,
}

/// A metric, in the order in which sacreBLEU prints scores, unless it makes a paired test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricName {
    /// BLEU.
    Bleu,
    /// chrF and chrF++.
    Chrf,
    /// TER.
    Ter,
}

/// What is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The corpus, of each system.
    Corpus,
    /// The corpus, with a confidence interval from this many resamples.
    Confidence(usize),
    /// Each line.
    Sentences,
    /// The corpus, each further system compared with the first on this many resamples.
    PairedBootstrap(usize),
    /// The corpus, each further system compared with the first in this many trials that exchange lines.
    PairedRandomization(usize),
}

/// How scores are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to print JSON in place of text.
    pub json: bool,
    /// Whether signatures have short keys in text.
    pub short: bool,
    /// Whether to print numbers alone.
    pub score_only: bool,
    /// Decimals of a score.
    pub width: usize,
}

/// Scores the hypotheses and prints the scores to stdout.
///
/// # Errors
/// Options that do not go together or leave no score defined, and `SACREBLEU_SEED` that is no number (exit code 2); a
/// file that cannot be read, is not UTF-8, or does not have as many lines as the others.
pub fn run(args: &MetricsArgs) -> anyhow::Result<()> {
    let metrics = each_once(args);
    check(args, metrics.len())?;
    let seed = seed(std::env::var("SACREBLEU_SEED").ok().as_deref())?;
    let input = Input::read(args)?;
    let systems = input.systems()?;
    if !args.force && metrics.contains(&MetricName::Bleu) {
        systems.warn_of_tokens();
    }
    let all_scores: Vec<Scores> =
        metrics.iter().map(|&metric| scoring::score(metric, args, &systems, seed)).collect::<Result<_, _>>()?;

    let mut out = BufWriter::new(io::stdout().lock());
    match args.task {
        Task::Sentences => report::write_sentences(&mut out, &all_scores, args.style)?,
        _ if systems.names.len() > 1 => table::write(&mut out, &systems.names, &all_scores, args.task, args.style)?,
        _ => report::write_corpus(&mut out, &all_scores, args.style)?,
    }
    Ok(out.flush()?)
}

/// The metrics in the order in which they are printed: for a paired test as they were given, else always the same.
fn each_once(args: &MetricsArgs) -> Vec<MetricName> {
    let mut metrics: Vec<MetricName> = Vec::new();
    for &metric in &args.metrics {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    if !matches!(args.task, Task::PairedBootstrap(_) | Task::PairedRandomization(_)) {
        metrics.sort_unstable();
    }
    metrics
}

/// Checks what the options say together.
fn check(args: &MetricsArgs, num_metrics: usize) -> anyhow::Result<()> {
    let num_systems = 1 + args.systems.len();
    let problem = match args.task {
        Task::Sentences if num_metrics > 1 => {
            ("each line can be scored by one metric at a time", "run it once for each metric")
        }
        Task::Sentences if num_systems > 1 => {
            ("each line can be scored for one system at a time", "run it once for each system")
        }
        Task::Confidence(_) if num_systems > 1 => {
            ("a confidence interval is computed for one system", "compare systems with `--paired-bs` or `--paired-ar`")
        }
        Task::PairedBootstrap(_) | Task::PairedRandomization(_) if num_systems == 1 => {
            ("a paired test compares two systems or more", "name the others with `--hypothesis FILE`")
        }
        _ if args.num_refs > 1 && args.references.len() > 1 => (
            "`--num-refs` splits the lines of one reference file",
            "give one reference file, or leave out `--num-refs`",
        ),
        _ => return Ok(()),
    };
    Err(usage(with_hint(anyhow!(problem.0), problem.1)))
}

/// The seed of every resampling, from the environment where it is set, as for sacreBLEU.
fn seed(value: Option<&str>) -> anyhow::Result<u64> {
    let Some(text) = value else { return Ok(DEFAULT_SEED) };
    let seed = text.trim().parse();
    ensure!(
        seed.is_ok(),
        usage(with_hint(
            anyhow!("`SACREBLEU_SEED` is `{text}`, which is no whole number from 0 to 2^64 - 1"),
            format!("set a number, or unset it for sacreBLEU's seed {DEFAULT_SEED}; there are no unseeded tests"),
        ))
    );
    Ok(seed?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_number_or_an_error() {
        assert_eq!(seed(None).unwrap(), 12345);
        assert_eq!(seed(Some("7")).unwrap(), 7);
        for wrong in ["none", "-1", ""] {
            let message = seed(Some(wrong)).unwrap_err().to_string();
            assert!(message.contains(&format!("`SACREBLEU_SEED` is `{wrong}`")), "{message}");
        }
    }
}
