//! One run, gathered from its directory.

use std::fs;
use std::path::Path;

use polyglow_data::config::Split;
use polyglow_data::pair::Pair;
use polyglow_predict::scoring::Scoring;
use polyglow_train::Result;
use polyglow_train::config::Config;
use polyglow_train::run::{RunDirectory, records};
use serde_json::Value;

/// The number of validations whose output is shown, besides the best: evenly spaced, with the
/// first and the last.
const SHOWN: usize = 8;

/// All that a report shows of a run, which need not be finished.
///
/// ```
/// use std::fs;
///
/// use polyglow_view::report::{RunSummary, render};
///
/// let directory = tempfile::tempdir()?;
/// // A run that has only begun; `polyglow_train` writes these files.
/// fs::write(directory.path().join("config.toml"), "[data]\ncorpus = \"digits\"\n[train]\nmax_steps = 20\n")?;
/// let records = [
///     r#"{"kind": "train", "step": 10, "loss": 2.5, "tokens": 640, "seconds": 0.5}"#,
///     r#"{"kind": "train", "step": 20, "loss": 2.1, "tokens": 640, "seconds": 0.5}"#,
/// ];
/// fs::write(directory.path().join("metrics.jsonl"), records.join("\n"))?;
///
/// let run = RunSummary::read(directory.path())?;
/// assert_eq!((run.records_of("train").count(), run.best), (2, None));
/// let page = render(&[run], &[]);
/// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Curves"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Debug)]
pub struct RunSummary {
    /// The run's directory, as the caller gave it.
    pub name: String,
    /// The resolved configuration.
    pub config: Config,
    /// The report of `polyglow check` from before the first step; `None` if there is none.
    pub inspection: Option<Value>,
    /// The number of trained parameters; `None` before the first checkpoint.
    pub parameters: Option<u64>,
    /// The step of the best checkpoint; `None` before the first validation.
    pub best: Option<u64>,
    /// The records of `metrics.jsonl`: of training, validation and tests.
    pub records: Vec<Value>,
    /// The validation set; empty if there is none, or if it can be read neither where the config
    /// says nor in the run.
    pub valid: Vec<Pair>,
    /// The scoring of its output; `None` before it has tokenizers.
    pub scoring: Option<Scoring>,
    /// Steps and output lines of some validations, in the order of the steps: the first, the last,
    /// the best, and some between them.
    pub outputs: Vec<(u64, Vec<String>)>,
}

impl RunSummary {
    /// Reads the run in the directory `root`.
    ///
    /// # Errors
    /// There is no run in `root`, or a file of it is damaged.
    pub fn read(root: &Path) -> Result<Self> {
        let run = RunDirectory::existing(root)?;
        let config = run.config()?;
        let records = records::read(&run.metrics_path())?;
        let valid = valid_pairs(&run, &config);
        let scoring = if run.has_tokenizers() {
            Some(scoring(&run, &config, &valid)?)
        } else {
            None
        };
        let mut best = None;
        let mut parameters = None;
        if let Some(newest) = run.checkpoints(1).get("last")? {
            best = newest.state.best.as_ref().map(|best| best.step);
            parameters = Some(newest.parameters()?);
        }
        let mut outputs = Vec::new();
        for step in shown_steps(&records, best) {
            // Users may delete outputs of old validations.
            if let Some(lines) = output_lines(&run, step) {
                outputs.push((step, lines));
            }
        }
        Ok(Self {
            name: root.display().to_string(),
            inspection: inspection(&run),
            config,
            parameters,
            best,
            records,
            valid,
            scoring,
            outputs,
        })
    }

    /// Returns the records of one kind: `train`, `valid` or `test`.
    pub fn records_of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        records_of(&self.records, kind)
    }

    /// Whether scores of this run and of another can be compared: same references, same metrics.
    pub(super) fn is_scored_as(&self, other: &Self) -> bool {
        let is_comparable = match (&self.scoring, &other.scoring) {
            (Some(scoring), Some(other)) => scoring.is_comparable_with(other),
            (None, None) => true,
            _ => false,
        };
        is_comparable && self.valid == other.valid
    }

    /// Whether there is output of the best validation, with a reference for each line.
    pub(super) fn has_comparable_output(&self) -> bool {
        !self.valid.is_empty()
            && self
                .best_output()
                .is_some_and(|lines| lines.len() == self.valid.len())
    }

    /// The output of the best validation.
    pub(super) fn best_output(&self) -> Option<&[String]> {
        let best = self.best?;
        let (_, lines) = self.outputs.iter().find(|(step, _)| *step == best)?;
        Some(lines)
    }
}

fn records_of<'a>(records: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["kind"] == kind)
}

/// The validation set of a run. Its text may have been moved since; then a warning tells why there
/// is none, because the rest of the report is still of use.
fn valid_pairs(run: &RunDirectory, config: &Config) -> Vec<Pair> {
    if !config.data.has_valid() {
        return Vec::new();
    }
    read_valid(run, config).unwrap_or_else(|error| {
        tracing::warn!("the samples have no sources: {error}");
        Vec::new()
    })
}

fn read_valid(run: &RunDirectory, config: &Config) -> Result<Vec<Pair>> {
    let set = run.open_set(config, Split::Valid)?;
    Ok(set.pairs().collect::<Result<_, _>>()?)
}

/// The scoring of a run's validations.
fn scoring(run: &RunDirectory, config: &Config, valid: &[Pair]) -> Result<Scoring> {
    let references = valid.iter().map(|pair| pair.tgt.as_str());
    let bleu_tokenizer = config.train.bleu_tokenizer(references)?;
    Scoring::new(run.tokenizers()?.tgt, bleu_tokenizer)
}

/// The report of `polyglow check`. A damaged one counts as none.
fn inspection(run: &RunDirectory) -> Option<Value> {
    let text = fs::read(run.inspection_path()).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The translations of a validation; `None` if their file cannot be read.
fn output_lines(run: &RunDirectory, step: u64) -> Option<Vec<String>> {
    let text = fs::read_to_string(run.validation_path(step)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// The steps of the validations whose output is shown.
fn shown_steps(records: &[Value], best: Option<u64>) -> Vec<u64> {
    let steps: Vec<u64> = records_of(records, "valid")
        .filter_map(|record| record["step"].as_u64())
        .collect();
    spread(&steps, best)
}

/// Some of the steps, evenly spaced, with the first, the last and the best.
fn spread(steps: &[u64], best: Option<u64>) -> Vec<u64> {
    let last = steps.len().saturating_sub(1);
    let even: Vec<usize> = (0..SHOWN)
        .map(|moment| moment * last / (SHOWN - 1))
        .collect();
    let mut shown = Vec::new();
    for (index, &step) in steps.iter().enumerate() {
        if even.contains(&index) || Some(step) == best {
            shown.push(step);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_validations_stand_for_many() {
        let steps: Vec<u64> = (1..=100).collect();
        assert_eq!(
            spread(&steps, Some(50)),
            [1, 15, 29, 43, 50, 57, 71, 85, 100]
        );
        assert_eq!(spread(&[3, 6], None), [3, 6]);
        assert!(spread(&[], None).is_empty());
    }
}
