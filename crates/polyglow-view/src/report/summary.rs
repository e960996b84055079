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

/// Validations whose output a sample shows: evenly spaced, the last among them.
const MOMENTS: usize = 8;

/// A run, finished or not.
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
/// assert_eq!((run.of_kind("train").count(), run.best), (2, None));
/// let page = render(&[run], &[]);
/// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Curves"));
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Debug)]
pub struct RunSummary {
    /// Its directory, as it was given.
    pub name: String,
    /// Its configuration.
    pub config: Config,
    /// The report of `polyglow check` from before the first step, if there is one.
    pub inspection: Option<Value>,
    /// Number of trained parameters; `None` before the first checkpoint.
    pub parameters: Option<u64>,
    /// The step of the best checkpoint, if there is one.
    pub best: Option<u64>,
    /// Every record of training, validation and tests.
    pub records: Vec<Value>,
    /// The validation set; empty if there is none or it can be read neither where the config says
    /// nor in the run.
    pub valid: Vec<Pair>,
    /// How its output is scored; `None` before it has tokenizers.
    pub scoring: Option<Scoring>,
    /// Steps and output lines of some validations, in the order of the steps: the first, the last,
    /// the best, and some between them.
    pub outputs: Vec<(u64, Vec<String>)>,
}

impl RunSummary {
    /// Reads a run directory.
    ///
    /// # Errors
    /// There is no run in `root`, or a file of it is damaged.
    pub fn read(root: &Path) -> Result<Self> {
        let run = RunDirectory::existing(root)?;
        let config = run.config()?;
        let records = records::read(&run.metrics_path())?;
        let newest = run.checkpoints(1).get("last")?;
        let pairs = || -> Result<Vec<Pair>> {
            Ok(run
                .open_set(&config, Split::Valid)?
                .pairs()
                .collect::<Result<_, _>>()?)
        };
        let valid = if config.data.has_valid() {
            pairs()
        } else {
            Ok(Vec::new())
        };
        let valid = valid.unwrap_or_else(|error| {
            tracing::warn!("the samples have no sources: {error}");
            Vec::new()
        });
        let steps: Vec<u64> = of_kind(&records, "valid")
            .filter_map(|record| record["step"].as_u64())
            .collect();
        let best = newest
            .as_ref()
            .and_then(|checkpoint| checkpoint.state.best)
            .map(|best| best.step);
        let references = valid.iter().map(|pair| pair.tgt.as_str());
        let scoring = || {
            Scoring::new(
                run.tokenizers()?.tgt,
                config.train.bleu_tokenizer(references)?,
            )
        };
        let read = |step: u64| Some((step, lines(&run, step)?));
        Ok(Self {
            name: root.display().to_string(),
            parameters: newest
                .map(|checkpoint| checkpoint.parameters())
                .transpose()?,
            inspection: fs::read(run.inspection_path())
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok()),
            outputs: moments(&steps, best).into_iter().filter_map(read).collect(),
            scoring: run.has_tokenizers().then(scoring).transpose()?,
            config,
            best,
            records,
            valid,
        })
    }

    /// The records of one kind: `train`, `valid` or `test`.
    pub fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        of_kind(&self.records, kind)
    }

    /// Whether the same scores of this run and of another mean the same.
    pub(super) fn is_scored_as(&self, other: &Self) -> bool {
        let is_comparable = match (&self.scoring, &other.scoring) {
            (Some(scoring), Some(other)) => scoring.is_comparable_with(other),
            (None, None) => true,
            _ => false,
        };
        is_comparable && self.valid == other.valid
    }

    /// Whether the output of the best validation is there, with a reference for each line.
    pub(super) fn has_comparable_output(&self) -> bool {
        !self.valid.is_empty()
            && self
                .best_output()
                .is_some_and(|lines| lines.len() == self.valid.len())
    }

    /// The output of the best validation.
    pub(super) fn best_output(&self) -> Option<&[String]> {
        let best = self.best?;
        self.outputs
            .iter()
            .find(|(step, _)| *step == best)
            .map(|(_, lines)| &**lines)
    }
}

fn of_kind<'a>(records: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["kind"] == kind)
}

/// The translations that a validation wrote.
fn lines(run: &RunDirectory, step: u64) -> Option<Vec<String>> {
    let text = fs::read_to_string(run.validation_path(step)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// A few of the steps, evenly spaced, with the first, the last and the best.
fn moments(steps: &[u64], best: Option<u64>) -> Vec<u64> {
    let last = steps.len().saturating_sub(1);
    let chosen = |index: &usize| (0..MOMENTS).any(|moment| moment * last / (MOMENTS - 1) == *index);
    let keep =
        |(index, step): (usize, &u64)| (chosen(&index) || Some(*step) == best).then_some(*step);
    steps.iter().enumerate().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_moments_stand_for_many_validations() {
        let steps: Vec<u64> = (1..=100).collect();
        assert_eq!(
            moments(&steps, Some(50)),
            [1, 15, 29, 43, 50, 57, 71, 85, 100]
        );
        assert_eq!(moments(&[3, 6], None), [3, 6]);
        assert!(moments(&[], None).is_empty());
    }
}
