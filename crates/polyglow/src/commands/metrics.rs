//! `polyglow metrics`: scores of a text against references, as sacreBLEU's command gives them.

mod args;
mod input;
mod report;
mod scoring;
mod table;

use std::io::{self, BufWriter, Write};

use anyhow::{anyhow, ensure};
use polyglow_metrics::significance::DEFAULT_SEED;

use crate::failure::{usage, with_hint};
use args::{MetricName, Style, Task};
use input::Input;
use scoring::Scores;

pub(crate) use args::MetricsArgs;
pub(crate) use input::PHRASES;

/// Scores the hypotheses and prints the scores to stdout.
///
/// # Errors
/// Options that conflict or leave the score undefined, and a `SACREBLEU_SEED` that is not a number
/// (exit code 2); a file that cannot be read, is not UTF-8, or does not have as many lines as the
/// others.
pub(crate) fn run(args: &MetricsArgs) -> anyhow::Result<()> {
    let task = args.task();
    let metrics = each_once(&args.metrics, task);
    args.bleu.warn_of_unused_value();
    check(args, task, metrics.len())?;
    let seed = seed(std::env::var("SACREBLEU_SEED").ok().as_deref())?;
    let input = Input::read(args)?;
    let systems = input.systems()?;
    if !args.bleu.force && metrics.contains(&MetricName::Bleu) {
        systems.warn_of_tokens();
    }
    let all_scores: Vec<Scores> = metrics
        .iter()
        .map(|&metric| scoring::score(metric, args, task, &systems, seed))
        .collect::<Result<_, _>>()?;

    let mut out = BufWriter::new(io::stdout().lock());
    match task {
        Task::Sentences => report::write_sentences(&mut out, &all_scores, args.style)?,
        _ if systems.names.len() > 1 => {
            table::write(&mut out, &systems.names, &all_scores, task, args.style)?;
        }
        _ => report::write_corpus(&mut out, &all_scores, args.style)?,
    }
    Ok(out.flush()?)
}

/// The metrics in the order in which they are printed: for a paired test as they were given,
/// otherwise always the same.
fn each_once(given: &[MetricName], task: Task) -> Vec<MetricName> {
    let mut metrics: Vec<MetricName> = Vec::new();
    for &metric in given {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    if !matches!(
        task,
        Task::PairedBootstrap(_) | Task::PairedRandomization(_)
    ) {
        metrics.sort_unstable();
    }
    metrics
}

/// Checks combinations of options.
fn check(args: &MetricsArgs, task: Task, num_metrics: usize) -> anyhow::Result<()> {
    let num_systems = 1 + args.systems.len();
    let problem = match task {
        Task::Sentences if num_metrics > 1 => (
            "each line can be scored by one metric at a time",
            "run it once for each metric",
        ),
        Task::Sentences if num_systems > 1 => (
            "each line can be scored for one system at a time",
            "run it once for each system",
        ),
        Task::Confidence(_) if num_systems > 1 => (
            "a confidence interval is computed for one system",
            "compare systems with `--paired-bs` or `--paired-ar`",
        ),
        Task::PairedBootstrap(_) | Task::PairedRandomization(_) if num_systems == 1 => (
            "a paired test compares two systems or more",
            "name the others with `--hypothesis FILE`",
        ),
        _ if args.num_refs > 1 && args.references.len() > 1 => (
            "`--num-refs` splits the lines of one reference file",
            "give one reference file, or leave out `--num-refs`",
        ),
        _ => return Ok(()),
    };
    Err(usage(with_hint(anyhow!(problem.0), problem.1)))
}

/// The seed of every resampling, from the environment if it is set there, as for sacreBLEU.
fn seed(value: Option<&str>) -> anyhow::Result<u64> {
    let Some(text) = value else {
        return Ok(DEFAULT_SEED);
    };
    let seed = text.trim().parse();
    ensure!(
        seed.is_ok(),
        usage(with_hint(
            anyhow!("`SACREBLEU_SEED` is `{text}`, which is not a whole number from 0 to 2^64 - 1"),
            format!(
                "set a number, or unset it for sacreBLEU's seed {DEFAULT_SEED}; there are no unseeded tests"
            ),
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
            assert!(
                message.contains(&format!("`SACREBLEU_SEED` is `{wrong}`")),
                "{message}"
            );
        }
    }
}
