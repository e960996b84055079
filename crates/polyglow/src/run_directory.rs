//! A run directory: what is where in it, and how a trained model comes back out of it.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::search::SearchConfig;
use polyglow_model::{Transformer, TransformerConfig, Vocabulary, parameter};

use crate::config::Config;
use crate::failure::{usage, with_hint};
use crate::train::checkpoint::{Checkpoint, Checkpoints};
use crate::train::{batching, pad_multiple};
use crate::translate::{Member, Translator};
use crate::weights::Weights;

/// A run directory.
///
/// It explains itself: `config.toml` (with everything a preset decided), the tokenizers, `inspection.json`,
/// `metrics.jsonl`, `train.log`, `checkpoints/`, `validation/` with the output of each validation, and `cache/`, which may
/// be deleted.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
}

/// A trained model with all that is needed to use it.
pub struct TrainedModel {
    /// The run's configuration.
    pub config: Config,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The model, on a device that does not differentiate.
    pub model: Transformer,
    /// The checkpoint that the weights came from.
    pub checkpoint: Checkpoint,
}

impl TrainedModel {
    /// Loads the model at `path`: the best checkpoint of a run directory, or a checkpoint in one.
    ///
    /// # Errors
    /// There is neither at `path`; or as [`RunDirectory::load`].
    pub fn load(path: &Path, device: &Device) -> anyhow::Result<Self> {
        let run = path.parent().and_then(Path::parent).filter(|_| Checkpoint::is_at(path));
        match run {
            Some(run) => RunDirectory::existing(run)?.load(&path.to_string_lossy(), device),
            None => RunDirectory::existing(path)?.load("best", device),
        }
    }
}

/// What translates with these models together; at least one, all of the same target vocabulary.
///
/// # Errors
/// The target vocabularies differ; the beam is wider than the vocabulary (exit code 2).
pub fn translator<'a>(
    models: &'a [TrainedModel],
    config: &'a Config,
    device: &'a Device,
) -> anyhow::Result<Translator<'a>> {
    let first = models.first().context("there is no model")?;
    let tgt = &*first.tokenizers.tgt;
    for other in &models[1..] {
        let (ours, theirs) = (first.checkpoint.path.display(), other.checkpoint.path.display());
        let same = other.tokenizers.tgt.to_json()? == tgt.to_json()?;
        ensure!(same, "`{ours}` and `{theirs}` cannot translate together: their target vocabularies differ");
    }
    check_beam(&config.search, &first.tokenizers)?;
    let members = models.iter().map(|model| Member { model: &model.model, src: &model.tokenizers.src }).collect();
    let (max_tokens, pad_multiple) = (config.train.max_tokens, pad_multiple(config));
    Ok(Translator { members, tgt, search: &config.search, device, max_tokens, pad_multiple })
}

/// Checks that there are as many tokens as a beam is to keep hypotheses.
///
/// # Errors
/// There are fewer (exit code 2).
pub fn check_beam(search: &SearchConfig, tokenizers: &Tokenizers) -> anyhow::Result<()> {
    let (width, vocab_size) = (search.width(), tokenizers.tgt.vocab_size());
    if width > vocab_size {
        return Err(usage(anyhow!("a beam of {width} is wider than the target vocabulary of {vocab_size} tokens")));
    }
    Ok(())
}

impl RunDirectory {
    /// The directory at `root`, which may not be there yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A directory that a training has written to.
    ///
    /// # Errors
    /// There is no run in `root`.
    pub fn existing(root: &Path) -> anyhow::Result<Self> {
        let run = Self::new(root);
        if run.config_path().is_file() {
            return Ok(run);
        }
        let error = anyhow::anyhow!("no run in `{}`: it has no `config.toml`", root.display());
        Err(with_hint(
            error,
            "a run is the directory that `polyglow train` names at its start, such as `runs/quickstart`",
        ))
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The resolved configuration.
    pub fn config_path(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// One JSON object a line: training, validation and test records.
    pub fn metrics_path(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    /// The report of `check`, from before the first step.
    pub fn inspection_path(&self) -> PathBuf {
        self.root.join("inspection.json")
    }

    /// Everything that was said, with times.
    pub fn log_path(&self) -> PathBuf {
        self.root.join("train.log")
    }

    /// The id cache of a split.
    pub fn cache_path(&self, split: &str) -> PathBuf {
        self.root.join("cache").join(format!("{split}.ids"))
    }

    /// The translations of the validation set after a step.
    pub fn validation_path(&self, step: u64) -> PathBuf {
        self.root.join("validation").join(format!("step-{step}.txt"))
    }

    /// The checkpoints, of which the newest `keep_last` are kept.
    pub fn checkpoints(&self, keep_last: usize) -> Checkpoints {
        Checkpoints::new(self.root.join("checkpoints"), keep_last)
    }

    /// The configuration of the run.
    ///
    /// # Errors
    /// It cannot be read, or not as this version's configuration.
    pub fn config(&self) -> anyhow::Result<Config> {
        Config::load(&self.config_path(), &[])
    }

    /// Makes the directory and keeps other trainings out of it until the returned file is closed.
    ///
    /// # Errors
    /// It cannot be made, or another process trains in it: the message names that.
    pub fn lock(&self) -> anyhow::Result<File> {
        fs::create_dir_all(&self.root).with_context(|| format!("cannot make `{}`", self.root.display()))?;
        let path = self.root.join("lock");
        let failed = || format!("cannot lock `{}`", path.display());
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).with_context(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                anyhow::bail!("`{}` is in use: process {} trains there", self.root.display(), holder.trim());
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).with_context(failed)?;
        Ok(file)
    }

    /// Writes the configuration into the directory, and removes what a killed process left unfinished.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(&self, config: &Config) -> anyhow::Result<()> {
        let make = |path: &Path| fs::create_dir_all(path).with_context(|| format!("cannot make `{}`", path.display()));
        make(&self.root.join("cache"))?;
        make(&self.root.join("validation"))?;
        remove_unfinished(&self.root.join("cache"))?;
        let (path, beside) = (self.config_path(), self.root.join("config.toml.tmp"));
        let text = config.to_toml()?;
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
        written.with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Whether the run has tokenizers: of two, the target side's is written last.
    pub fn has_tokenizers(&self) -> bool {
        ["tokenizer.json", "tokenizer.tgt.json"].iter().any(|file| self.root.join(file).exists())
    }

    /// The tokenizers of the run.
    ///
    /// # Errors
    /// They are missing or damaged.
    pub fn tokenizers(&self) -> anyhow::Result<Tokenizers> {
        Tokenizers::load(&self.root).with_context(|| format!("the tokenizer of the run `{}`", self.root.display()))
    }

    /// Removes the tokenizers, so that the next training makes them anew.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_tokenizers(&self) -> anyhow::Result<()> {
        for name in ["tokenizer.json", "tokenizer.src.json", "tokenizer.tgt.json"] {
            let path = self.root.join(name);
            if path.is_file() {
                fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    /// Loads the model of a checkpoint: `best`, `last`, `step-N`, `average`, `ema` (the moving average in the last
    /// checkpoint), or a path. A run without validation has no `best`; its last checkpoint stands in.
    ///
    /// # Errors
    /// There is no such checkpoint, it is damaged, or it does not fit the configuration.
    pub fn load(&self, checkpoint: &str, device: &Device) -> anyhow::Result<TrainedModel> {
        let config = self.config()?;
        let tokenizers = self.tokenizers()?;
        let (found, weights) = self.weights(checkpoint)?;
        let shape = model_config(&config, &tokenizers)?;
        let model = load_weights(Transformer::new(&shape, config.seed, device), weights)?;
        Ok(TrainedModel { config, tokenizers, model, checkpoint: found })
    }

    /// The weights of a checkpoint, named as for [`Self::load`].
    ///
    /// # Errors
    /// There is no such checkpoint, or it is damaged.
    pub fn weights(&self, checkpoint: &str) -> anyhow::Result<(Checkpoint, Weights)> {
        let checkpoints = self.checkpoints(1);
        let found = match checkpoint {
            "ema" => checkpoints.find("last")?,
            "best" if !checkpoints.has("best") => checkpoints.find("last")?,
            name => checkpoints.find(name)?,
        };
        let weights = if checkpoint == "ema" { found.average()? } else { found.model()? };
        Ok((found, weights))
    }
}

/// The shape of the model that a configuration and its tokenizers ask for.
///
/// # Errors
/// A size does not fit, such as tied embeddings over separate vocabularies.
pub fn model_config(config: &Config, tokenizers: &Tokenizers) -> anyhow::Result<TransformerConfig> {
    let vocabulary = Vocabulary {
        src_size: tokenizers.src.vocab_size(),
        tgt_size: tokenizers.tgt.vocab_size(),
        shared: tokenizers.is_shared(),
        src_pad_id: tokenizers.src.special().pad,
        tgt_pad_id: tokenizers.tgt.special().pad,
        // The longest sentence and its end mark; BPE dropout may lengthen a sentence that was just short enough.
        max_len: batching(config).planned_len(config.data.max_len) + 1,
    };
    Ok(config.model.transformer(vocabulary)?)
}

/// Gives every parameter its value from a file.
///
/// # Errors
/// A tensor is missing, left over, or of another shape.
pub fn load_weights(model: Transformer, mut weights: Weights) -> anyhow::Result<Transformer> {
    let model = parameter::replace(model, |name, shape| weights.take(name, shape))?;
    weights.finish()?;
    Ok(model)
}

/// Removes the files whose names end in `.tmp`: each was to be renamed when it was complete.
fn remove_unfinished(dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot clear `{}`", dir.display());
    for entry in fs::read_dir(dir).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            fs::remove_file(&path).with_context(failed)?;
        }
    }
    Ok(())
}
