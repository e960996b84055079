//! Scores by which `polyglow clean` removes pairs: those of another program, or of a model.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use polyglow_data::clean::cleaning::ScoreLimit;
use polyglow_data::clean::filtered::Filtered;
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::pair::Pair;
use polyglow_data::pair_scores::read_pair_scores;
use polyglow_predict::group::alone;
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::translation::teacher_forced;
use polyglow_train::run::{RunDirectory, runner, sha256};

use crate::activity::{Activity, Pace};
use crate::commands::model::{LanguageArgs, ModelArgs};
use crate::commands::pairs::Pairs;
use crate::commands::uses::check_translates;
use crate::failure::usage;

/// The checkpoint of a run whose model scores.
const CHECKPOINT: &str = "best";
/// Pairs that are batched by length and scored together.
const PORTION: usize = 2048;

/// The scores by which pairs are removed.
pub(super) struct Scoring<'a> {
    pub(super) source: ScoreSource<'a>,
    /// The share of the pairs to keep.
    pub(super) keep: f64,
}

/// Where scores come from.
pub(super) enum ScoreSource<'a> {
    /// A file with a score for each line of the text, with the option or the key that names it.
    File { key: &'static str, path: &'a Path },
    /// A run whose model scores.
    Run(&'a Path),
}

impl<'a> ScoreSource<'a> {
    /// Names a file of scores, by an option or a key.
    ///
    /// # Errors
    /// There is no such file.
    pub(super) fn file(key: &'static str, path: &'a Path) -> anyhow::Result<Self> {
        Corpus::open_text(key, path)?;
        Ok(Self::File { key, path })
    }
}

impl Scoring<'_> {
    /// Returns all that decides which pairs are removed, as text.
    ///
    /// # Errors
    /// The file of scores or the run of the model cannot be read.
    pub(super) fn identity(&self) -> anyhow::Result<String> {
        let decided_by = match self.source {
            ScoreSource::File { key, path } => {
                sha256(&Corpus::open_text(key, path)?.hashes()?.whole)
            }
            ScoreSource::Run(run) => {
                let (checkpoint, _) = RunDirectory::existing(run)?.weights(CHECKPOINT)?;
                checkpoint.model_hash().unwrap_or_default().to_owned()
            }
        };
        Ok(format!("{} {decided_by}", self.keep))
    }

    /// Returns a score for each pair of a text; NaN for none.
    ///
    /// # Errors
    /// The scores do not fit the text, or the model does not translate it (exit code 2); they cannot be
    /// read.
    pub(super) fn scores(&self, text: &Pairs, filtered: &Filtered) -> anyhow::Result<Vec<f32>> {
        match self.source {
            ScoreSource::File { key, path } => {
                let num_pairs = filtered.cleaning().num_pairs();
                read_pair_scores(key, path, num_pairs).map_err(|error| match error {
                    DataError::PairScore { .. } | DataError::PairScoreCount { .. } => usage(error),
                    other => other.into(),
                })
            }
            ScoreSource::Run(run) => compute(run, text, filtered),
        }
    }
}

/// The scores of a text, and where they divide it.
pub(super) struct Scores {
    /// The score of each pair; NaN for none.
    pub(super) values: Vec<f32>,
    /// `None` if they remove nothing.
    pub(super) limit: Option<ScoreLimit>,
}

/// Scores the pairs that `filtered` keeps with a model: by the mean log-probability of the target's
/// tokens, in nats. Other pairs have no score (NaN).
///
/// # Errors
/// There is no such run, or it does not translate from the languages of a config's text (exit code 2);
/// the text cannot be read.
fn compute(run: &Path, text: &Pairs, filtered: &Filtered) -> anyhow::Result<Vec<f32>> {
    let model = ModelArgs::of_run(run, CHECKPOINT, None);
    let [from, to] = &text.languages;
    // The names of files are no languages for sure.
    let languages = match &text.config {
        Some(_) => LanguageArgs {
            from: Some(from.clone()),
            to: Some(to.clone()),
        },
        None => LanguageArgs::default(),
    };
    let plan = model.open_for(&languages, alone())?;
    let models = model.load(&plan)?;
    check_translates(&models)?;
    let runner = runner(models, &plan)?;
    let num_pairs = filtered.cleaning().num_pairs();
    let mut scores = vec![f32::NAN; num_pairs as usize];
    let mut activity = Activity::new();
    let pace = Pace::from(0);
    let mut portion = Portion::default();
    let mut index = 0;
    for pair in text.corpus.pairs() {
        let cleaned = filtered.cleaned(index, &pair?);
        if cleaned.removed.is_none() {
            portion.indices.push(index);
            portion.pairs.push(cleaned.pair);
        }
        index += 1;
        if portion.pairs.len() == PORTION {
            portion.score(&runner, &mut scores)?;
            let left = pace.time_left(index, num_pairs);
            activity.show(format!("scored {index} of {num_pairs} pairs, left {left}"));
        }
    }
    portion.score(&runner, &mut scores)?;
    ensure!(index == num_pairs, "the text has changed while it was read");
    Ok(scores)
}

/// Pairs that are scored together, with their numbers in the corpus.
#[derive(Default)]
struct Portion {
    indices: Vec<u64>,
    pairs: Vec<Pair>,
}

impl Portion {
    /// Scores the pairs, and forgets them.
    fn score(&mut self, runner: &Runner, scores: &mut [f32]) -> anyhow::Result<()> {
        let forced = teacher_forced(runner, &self.pairs).context("scoring the pairs")?;
        if forced.len() != self.indices.len() {
            bail!(
                "a model gave {} scores for {} pairs",
                forced.len(),
                self.indices.len()
            );
        }
        for (index, forced) in self.indices.iter().zip(forced) {
            let mean = forced.log_prob() / forced.log_probs.len().max(1) as f64;
            scores[*index as usize] = mean as f32;
        }
        self.indices.clear();
        self.pairs.clear();
        Ok(())
    }
}
