//! Before the first step: text becomes tokenizers and ids, in a directory of its own.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::{Stage, Tokenizers};
use polyglow_model::Task;

use super::fork::{self, Origin};
use super::resume::{check_same_config, check_same_text, text_hashes};
use super::{Ending, Stop, find_max_tokens, pad_multiple, train, training_device};
use crate::config::{Config, MaxTokens};
use crate::device;
use crate::error::{Context, Result, failed, with_hint};
use crate::observer::Observer;
use crate::predict::evaluation::check_labels;
use crate::predict::forced::check_words;
use crate::run::{Lock, RunDirectory, TextHashes, TrainState, check_beam};

/// The text that a config names.
#[derive(Debug)]
pub struct Text {
    /// What is trained on.
    pub train: Corpus,
    valid: Option<Corpus>,
    /// What training is watched on; empty where there is none.
    pub valid_pairs: Vec<Pair>,
}

impl Text {
    /// Opens it, and makes sure that the test sets are there, which are only read at the end.
    ///
    /// # Errors
    /// A file is missing or cannot be read.
    pub fn open(config: &Config) -> Result<Self> {
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
    fn fit(&self, run: &RunDirectory, tokenizers: Tokenizers) -> Result<(Tokenizers, TextHashes)> {
        let hashes = text_hashes(&self.train, self.valid.as_ref(), &tokenizers)?;
        check_same_text(run, &hashes)?;
        Ok((tokenizers, hashes))
    }
}

/// A training that can begin, or go on: everything that it is made from.
pub struct Training {
    /// The configuration, with everything that was left open decided.
    pub config: Config,
    /// Where everything is written.
    pub run: RunDirectory,
    /// Where the model is, without autodiff.
    pub device: Device,
    /// The text.
    pub text: Text,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The training examples.
    pub cache: Arc<IdCache>,
    /// What keeps other trainings out of the directory.
    pub(super) lock: Lock,
    /// What the texts and tokenizers are, for checkpoints to remember.
    pub(super) hashes: TextHashes,
    origin: Option<Origin>,
}

impl Training {
    /// Prepares a training in the directory `run`, or takes up the one that is there: the same config and directory go on
    /// where a run was stopped.
    ///
    /// The directory is made once everything that can be checked without training is known to be right.
    ///
    /// # Errors
    /// The config is wrong, or another than the run's ([`ErrorKind::Usage`](crate::ErrorKind::Usage)); the device is not
    /// there; the data cannot be read; another process trains there; the disk fails.
    pub fn prepare(config: Config, run: impl AsRef<Path>, observer: &mut dyn Observer) -> Result<Self> {
        let run = RunDirectory::new(run.as_ref());
        Self::prepare_in(config, run, observer, |run, _| fork::check_is_no_fork(run).map(|()| None))
    }

    /// As [`Self::prepare`], with the weights and the tokenizers of the checkpoint `checkpoint` of another run.
    ///
    /// # Errors
    /// As [`Self::prepare`]; there is no such run or checkpoint, or its weights fit another config.
    pub fn fork(
        config: Config,
        from: impl AsRef<Path>,
        checkpoint: &str,
        run: impl AsRef<Path>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let from = RunDirectory::new(from.as_ref());
        Self::prepare_in(config, RunDirectory::new(run.as_ref()), observer, |run, config| {
            Origin::find(&from, checkpoint, run, config)
        })
    }

    fn prepare_in(
        mut config: Config,
        run: RunDirectory,
        observer: &mut dyn Observer,
        origin: impl FnOnce(&RunDirectory, &Config) -> Result<Option<Origin>>,
    ) -> Result<Self> {
        let device = device::open(&config.device)?;
        training_device(&config, &device)?;
        let text = Text::open(&config)?;
        run.check_is_ours()?;
        let origin = origin(&run, &config)?;
        let lock = run.lock()?;
        check_leaves_nothing_behind(&run)?;
        settle_batches(&run, &mut config)?;
        check_same_config(&run, &config)?;
        let (tokenizers, hashes) = tokenizers(&run, origin.as_ref(), &config, &text, observer)?;
        let cache = Arc::new(encode(&run, &config, &text, &tokenizers, observer)?);
        if config.train.max_tokens == MaxTokens::Auto {
            let found = find_max_tokens(&config, &tokenizers, &cache, &device, observer)?;
            tracing::info!(
                "train.max_tokens = {found}: what fits the memory of a GPU, or on a CPU the default; this run keeps it"
            );
            config.train.max_tokens = MaxTokens::Tokens(found);
            run.create(&config)?;
        }
        Ok(Self { config, run, device, text, tokenizers, cache, lock, hashes, origin })
    }

    /// Whether no step has been made in the directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn is_new(&self) -> Result<bool> {
        Ok(self.run.checkpoints(1).steps()?.is_empty())
    }

    /// Trains to the end, or until `stop` or the observer asks for it.
    ///
    /// # Errors
    /// Too many losses or gradients in a row are not finite; the device or the disk fails.
    pub fn run(&mut self, stop: &Stop, observer: &mut dyn Observer) -> Result<(Ending, TrainState)> {
        if let Some(origin) = self.origin.take() {
            origin.copy_weights(&self.run, &self.config, &self.tokenizers, &self.hashes, &self.device)?;
        }
        train(self, stop, observer)
    }
}

/// Makes sure that a training that would begin is not in the directory of one that has only weights left.
fn check_leaves_nothing_behind(run: &RunDirectory) -> Result<()> {
    let checkpoints = run.checkpoints(1);
    let left = checkpoints.named()?;
    if !checkpoints.steps()?.is_empty() || left.is_empty() {
        return Ok(());
    }
    let (root, left) = (run.root().display(), left.join("`, `"));
    let error = failed!(
        "`{root}` has the checkpoint `{left}` and none to go on from, and a new training would replace its records"
    );
    Err(with_hint(error, "bring a checkpoint `step-N` back, or give the new training another directory with `--run`"))
}

/// Writes down what padded lengths are multiples of, and takes over a size of batches that was found before: the order of
/// the data depends on both, and a run that goes on keeps them on any device.
fn settle_batches(run: &RunDirectory, config: &mut Config) -> Result<()> {
    let old = if run.config_path().is_file() { Some(run.config()?.train) } else { None };
    if config.train.max_tokens == MaxTokens::Auto {
        config.train.max_tokens = old.as_ref().map_or(MaxTokens::Auto, |old| old.max_tokens);
    }
    if config.train.pad_multiple.is_none() {
        let old = old.and_then(|old| old.pad_multiple);
        config.train.pad_multiple = Some(old.unwrap_or_else(|| pad_multiple(config)));
    }
    Ok(())
}

/// Makes the run's directory and its tokenizers, as far as that has not been done; nothing is written for a run that may
/// not go on.
fn tokenizers(
    run: &RunDirectory,
    origin: Option<&Origin>,
    config: &Config,
    text: &Text,
    observer: &mut dyn Observer,
) -> Result<(Tokenizers, TextHashes)> {
    let begins = run.checkpoints(1).steps()?.is_empty();
    // Those of a training that came to nothing may be of other text.
    let known = if !begins && run.has_tokenizers() { Some(text.fit(run, run.tokenizers()?)?) } else { None };
    if let Some(origin) = origin {
        origin.note(run)?;
    }
    run.create(config)?;
    observer.opened(run)?;
    tracing::info!("run directory: {}", run.root().display());
    if let Some(known) = known {
        return Ok(known);
    }
    let tokenizers = match origin {
        Some(origin) => origin.tokenizers(config, &text.train)?,
        None => Tokenizers::train(&config.tokenizer, &text.train, &mut |stage, count| tell(observer, stage, count))?,
    };
    let fitting = text.fit(run, tokenizers)?;
    run.remove_tokenizers()?;
    fitting.0.save(run.root())?;
    Ok(fitting)
}

/// Checks that the tokenizers suit the config and the validation set, and encodes the training text.
fn encode(
    run: &RunDirectory,
    config: &Config,
    text: &Text,
    tokenizers: &Tokenizers,
    observer: &mut dyn Observer,
) -> Result<IdCache> {
    check_beam(&config.search, tokenizers)?;
    if config.model.task().is_classification() {
        check_labels(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    if config.model.task() == Task::Words && !text.valid_pairs.is_empty() {
        check_words(&text.valid_pairs, &tokenizers.tgt).context("in the validation set")?;
    }
    let (path, filter) = (run.cache_path("train"), Filter::new(&config.data));
    let mut progress = |stage, count| tell(observer, stage, count);
    let (cache, report) = IdCache::open_or_build(&path, &text.train, tokenizers, Some(&filter), &mut progress)?;
    observer.idle();
    tracing::info!("training text: {report}");
    if config.model.task().is_classification() && report.tgt.unknown > 0 {
        let error = failed!("the training set has labels that the model does not know");
        return Err(with_hint(error, "a fork of a classifier keeps its labels; begin anew, or fork what has none yet"));
    }
    Ok(cache)
}

fn tell(observer: &mut dyn Observer, stage: Stage, count: u64) {
    if stage == Stage::LearningVocabulary {
        tracing::info!("learning a vocabulary of {count} tokens");
    }
    observer.activity(&match stage {
        Stage::CountingWords => format!("counting words: {count} lines"),
        Stage::LearningVocabulary => "learning a vocabulary".to_owned(),
        Stage::Encoding => format!("encoding: {count} pairs"),
    });
}
