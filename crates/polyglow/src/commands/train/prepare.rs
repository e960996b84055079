//! Before the first step: text becomes tokenizers and ids.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::{Stage, Tokenizers};
use polyglow_model::Task;

use super::fork::Origin;
use super::resume::{check_same_text, text_hashes};
use crate::activity::Activity;
use crate::config::Config;
use crate::evaluation::check_labels;
use crate::failure::with_hint;
use crate::forced::check_words;
use crate::logging;
use crate::run_directory::{RunDirectory, check_beam};
use crate::train::TextHashes;

/// The text that a config names.
pub(super) struct Text {
    pub(super) train: Corpus,
    valid: Option<Corpus>,
    pub(super) valid_pairs: Vec<Pair>,
}

impl Text {
    /// Opens it, and makes sure that the test sets are there, which are only read at the end.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let train = Corpus::open(&config.data, Split::Train)?;
        let has_valid = config.data.corpus.is_some() || config.data.valid.is_some();
        let valid = has_valid.then(|| Corpus::open(&config.data, Split::Valid)).transpose()?;
        let valid_pairs = valid.iter().flat_map(Corpus::pairs).collect::<Result<_, _>>()?;
        if config.data.corpus.is_none() {
            for name in config.data.test_names() {
                Corpus::open(&config.data, Split::Test(name))?;
            }
        }
        Ok(Self { train, valid, valid_pairs })
    }

    /// Makes sure that a run may go on with this text and these tokenizers; gives them back with their hashes.
    fn fit(&self, run: &RunDirectory, tokenizers: Tokenizers) -> anyhow::Result<(Tokenizers, TextHashes)> {
        let hashes = text_hashes(&self.train, self.valid.as_ref(), &tokenizers)?;
        check_same_text(run, &hashes)?;
        Ok((tokenizers, hashes))
    }
}

/// What the text becomes before the first step.
pub(super) struct Prepared {
    pub(super) tokenizers: Tokenizers,
    pub(super) cache: Arc<IdCache>,
    pub(super) hashes: TextHashes,
}

/// Makes the run's directory, learns its tokenizers and encodes its text, as far as that has not been done; nothing is
/// written for a run that may not go on.
pub(super) fn prepare(
    run: &RunDirectory,
    origin: Option<&Origin>,
    config: &Config,
    text: &Text,
) -> anyhow::Result<Prepared> {
    let begins = run.checkpoints(1).steps()?.is_empty();
    // Those of a training that came to nothing may be of other text.
    let known = if !begins && run.has_tokenizers() { Some(text.fit(run, run.tokenizers()?)?) } else { None };
    if let Some(origin) = origin {
        origin.mark(run)?;
    }
    run.create(config)?;
    logging::log_to_file(&run.log_path())?;
    tracing::info!("run directory: {}", run.root().display());
    let mut activity = Activity::new();
    let (tokenizers, hashes) = match (known, origin) {
        (Some(known), _) => known,
        (None, origin) => {
            let tokenizers = match origin {
                Some(origin) => origin.tokenizers(config, &text.train)?,
                None => learn(config, &text.train, &mut activity)?,
            };
            let fitting = text.fit(run, tokenizers)?;
            run.remove_tokenizers()?;
            fitting.0.save(run.root())?;
            fitting
        }
    };
    check_beam(&config.search, &tokenizers)?;
    if config.model.task().is_classification() {
        check_labels(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    if config.model.task() == Task::Words && !text.valid_pairs.is_empty() {
        check_words(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    let (path, filter) = (run.cache_path("train"), Filter::new(&config.data));
    let mut progress = |stage, count| preparing(&mut activity, stage, count);
    let (cache, report) = IdCache::open_or_build(&path, &text.train, &tokenizers, Some(&filter), &mut progress)?;
    drop(activity);
    tracing::info!("training text: {report}");
    if config.model.task().is_classification() && report.tgt.unknown > 0 {
        let error = anyhow!("the training set has labels that the model does not know");
        return Err(with_hint(error, "a fork of a classifier keeps its labels; begin anew, or fork what has none yet"));
    }
    Ok(Prepared { tokenizers, cache: Arc::new(cache), hashes })
}

fn learn(config: &Config, train: &Corpus, activity: &mut Activity) -> anyhow::Result<Tokenizers> {
    Ok(Tokenizers::train(&config.tokenizer, train, &mut |stage, count| preparing(activity, stage, count))?)
}

fn preparing(activity: &mut Activity, stage: Stage, count: u64) {
    if stage == Stage::LearningVocabulary {
        tracing::info!("learning a vocabulary of {count} tokens");
    }
    activity.show(match stage {
        Stage::CountingWords => format!("counting words: {count} lines"),
        Stage::LearningVocabulary => "learning a vocabulary".to_owned(),
        Stage::Encoding => format!("encoding: {count} pairs"),
    });
}
