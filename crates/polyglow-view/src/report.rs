//! What one run or several have come to, gathered from their directories and laid out on one page.

mod chart;
mod page;

use std::fs;
use std::path::Path;

use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_metrics::significance::{DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, baseline_confidence, paired_bootstrap};
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, segment_statistics};
use serde_json::Value;

use polyglow_train::Result;
use polyglow_train::config::Config;
use polyglow_train::run::RunDirectory;
use polyglow_train::run::records;

pub use page::render;

/// Sentences whose translations are shown over time.
const SAMPLES: usize = 5;
/// Validations that a sample is shown at: evenly spaced, the last among them.
const MOMENTS: usize = 8;

/// A run, as far as it has come.
#[derive(Debug)]
pub struct RunSummary {
    /// Its directory.
    pub name: String,
    /// Its configuration.
    pub config: Config,
    /// The report of `check` from before its first step, if it was kept.
    pub inspection: Option<Value>,
    /// Number of trained values.
    pub parameters: Option<u64>,
    /// The step of the best checkpoint.
    pub best: Option<u64>,
    /// Every record of training, validation and tests.
    pub records: Vec<Value>,
    /// The validation set, empty if there is none or it cannot be read any more.
    pub valid: Vec<Pair>,
    /// Steps of validations and their outputs, in order, at the moments that samples are shown at.
    pub outputs: Vec<(u64, Vec<String>)>,
}

impl RunSummary {
    /// Gathers a run.
    ///
    /// # Errors
    /// There is no such run, or a file in it is damaged.
    pub fn read(root: &Path) -> Result<Self> {
        let run = RunDirectory::existing(root)?;
        let config = run.config()?;
        let records = records::read(&run.metrics_path())?;
        let newest = run.checkpoints(1).get("last")?;
        let pairs = || Corpus::open(&config.data, Split::Valid)?.pairs().collect::<Result<Vec<Pair>, _>>();
        let has_valid = config.data.corpus.is_some() || config.data.valid.is_some();
        let valid = if has_valid { pairs() } else { Ok(Vec::new()) };
        let valid = valid.unwrap_or_else(|error| {
            tracing::warn!("the samples have no sources: {error}");
            Vec::new()
        });
        let steps: Vec<u64> = of_kind(&records, "valid").filter_map(|record| record["step"].as_u64()).collect();
        let best = newest.as_ref().and_then(|checkpoint| checkpoint.state.best).map(|best| best.step);
        let read = |step: u64| Some((step, lines(&run, step)?));
        Ok(Self {
            name: root.display().to_string(),
            parameters: newest.map(|checkpoint| checkpoint.parameters()).transpose()?,
            inspection: fs::read(run.inspection_path()).ok().and_then(|text| serde_json::from_slice(&text).ok()),
            outputs: moments(&steps, best).into_iter().filter_map(read).collect(),
            config,
            best,
            records,
            valid,
        })
    }

    /// The records of training (`train`), of validations (`valid`) or of tests (`test`).
    pub fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        of_kind(&self.records, kind)
    }

    /// Whether the output of the best validation and its references are there, line for line.
    fn has_comparable_output(&self) -> bool {
        !self.valid.is_empty() && self.best_output().is_some_and(|lines| lines.len() == self.valid.len())
    }

    /// The output of the best validation.
    fn best_output(&self) -> Option<&[String]> {
        let best = self.best?;
        self.outputs.iter().find(|(step, _)| *step == best).map(|(_, lines)| &**lines)
    }
}

/// How a run's best validation compares with that of the first run.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the run.
    pub name: String,
    /// Name of the metric.
    pub metric: &'static str,
    /// Score of the resampled corpora: mean, and half the width of the interval that holds 95 % of them.
    pub confidence: (f64, f64),
    /// Probability of such a difference to the first run if both were equal; none for the first.
    pub p_value: Option<f64>,
}

/// Compares the best validations by paired bootstrap resampling (Koehn, 2004), for BLEU and chrF.
///
/// Runs that were validated on other text than the first are left out.
///
/// # Errors
/// The scores cannot be computed.
pub fn compare(runs: &[RunSummary]) -> Result<Vec<Comparison>> {
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    let same: Vec<&RunSummary> =
        runs.iter().filter(|run| run.valid == first.valid && run.has_comparable_output()).collect();
    let bleu = BleuOptions { tokenizer: first.config.train.tokenize, ..BleuOptions::default() };
    let mut comparisons = compare_by("BLEU", &bleu, &same)?;
    comparisons.extend(compare_by("chrF", &ChrfOptions::default(), &same)?);
    Ok(comparisons)
}

fn compare_by(name: &'static str, metric: &impl Metric, runs: &[&RunSummary]) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    let mut baseline = None;
    for run in runs {
        let Some(hypotheses) = run.best_output() else { continue };
        let references: Vec<&str> = run.valid.iter().map(|pair| pair.tgt.as_str()).collect();
        let hypotheses: Vec<&str> = hypotheses.iter().map(String::as_str).collect();
        let statistics = segment_statistics(metric, &hypotheses, &[references])?;
        let (confidence, p_value) = match &baseline {
            None => (baseline_confidence(metric, &statistics, DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED)?, None),
            Some(baseline) => {
                let found = paired_bootstrap(metric, baseline, &statistics, DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED)?;
                let Some(confidence) = found.confidence else { continue };
                (confidence, Some(found.p_value))
            }
        };
        baseline.get_or_insert(statistics);
        let confidence = (confidence.mean, confidence.half_width);
        comparisons.push(Comparison { name: run.name.clone(), metric: name, confidence, p_value });
    }
    Ok(comparisons)
}

fn of_kind<'a>(records: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["kind"] == kind)
}

/// The translations of a validation, as they were written down.
fn lines(run: &RunDirectory, step: u64) -> Option<Vec<String>> {
    let text = fs::read_to_string(run.validation_path(step)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// A few of the steps, evenly spaced, with the first, the last and the best.
fn moments(steps: &[u64], best: Option<u64>) -> Vec<u64> {
    let last = steps.len().saturating_sub(1);
    let chosen = |index: &usize| (0..MOMENTS).any(|moment| moment * last / (MOMENTS - 1) == *index);
    let keep = |(index, step): (usize, &u64)| (chosen(&index) || Some(*step) == best).then_some(*step);
    steps.iter().enumerate().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_moments_stand_for_many_validations() {
        let steps: Vec<u64> = (1..=100).collect();
        assert_eq!(moments(&steps, Some(50)), [1, 15, 29, 43, 50, 57, 71, 85, 100]);
        assert_eq!(moments(&[3, 6], None), [3, 6]);
        assert!(moments(&[], None).is_empty());
    }
}
