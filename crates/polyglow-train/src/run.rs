//! A run directory: what is where in it, and how a trained model comes back out of it.

mod checkpoint;
mod held_out;
mod lock;
mod model;
mod ownership;
mod program;
pub mod records;
pub mod tensorboard;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use polyglow_data::batching::Selection;
use polyglow_data::file;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};
use polyglow_predict::model::load_for_search;
use polyglow_predict::weights::Weights;
use polyglow_predict::wording::shell_word;
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::plan::Plan;

pub use checkpoint::{Best, Checkpoint, Checkpoints, Content, TextHashes, TrainState};
pub use lock::Lock;
pub use model::{TrainedModel, load_runner, load_runner_with, runner};
pub use program::Program;
pub use weights::read_weights;

/// A run directory.
///
/// It explains itself: `config.toml` (with everything a preset decided), the tokenizers,
/// `inspection.json`, `metrics.jsonl`, `train.log`, `checkpoints/`, `validation/` with the output
/// of each validation, `held-out/` with the text of the validation and test sets, and `cache/`,
/// which may be deleted.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    root: PathBuf,
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
    pub fn existing(root: &Path) -> Result<Self> {
        let run = Self::new(root);
        if run.config_path().is_file() {
            return Ok(run);
        }
        let name = root.display();
        if root.is_file() && root.extension().is_some_and(|ending| ending == "toml") {
            let error = failed!("no run in `{name}`: it is a config, not a run");
            let run = Path::new("runs").join(root.file_stem().unwrap_or_default());
            let config = shell_word(root);
            let advice = format!(
                "`polyglow train {config}` trains it; the run is then `{}`",
                run.display()
            );
            return Err(with_hint(usage(error), advice));
        }
        let why = if root.is_dir() {
            "it has no `config.toml`"
        } else {
            "there is no such directory"
        };
        let advice = "a run is the directory that `polyglow train` names at its start, such as `runs/quickstart`";
        Err(with_hint(failed!("no run in `{name}`: {why}"), advice))
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
        self.root
            .join("validation")
            .join(format!("step-{step}.txt"))
    }

    /// The checkpoints, of which the newest `keep_last` are kept.
    pub fn checkpoints(&self, keep_last: usize) -> Checkpoints {
        Checkpoints::new(self.root.join("checkpoints"), keep_last)
    }

    /// The configuration of the run.
    ///
    /// # Errors
    /// It cannot be read, or not as this version's configuration.
    pub fn config(&self) -> Result<Config> {
        let advice =
            "this is the run's own copy of its config; restore it, or train in another directory";
        Config::load_copy(&self.config_path(), &[])
            .map_err(|error| with_hint(error, advice))
            .map_err(|error| self.name_other_program(error))
    }

    /// Says which program wrote the run, if it is another one, in the hint of an error about its
    /// config.
    fn name_other_program(&self, error: TrainError) -> TrainError {
        match self.other_program() {
            Some(program) => {
                let writer = format!(
                    "the run was written by the program `{program}`, which may have parts that this one lacks"
                );
                with_hint(error, writer)
            }
            None => error,
        }
    }

    /// Returns the program that wrote the newest checkpoint, if it is another one than this, by its
    /// name.
    fn other_program(&self) -> Option<Program> {
        let state = self.checkpoints(1).newest_state().ok()??;
        let program = state.program?;
        (program.name != Program::this().name).then_some(program)
    }

    /// The configuration of the run with overrides, as [`Config::load`] takes them.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn config_with(&self, overrides: &[String]) -> Result<Config> {
        Config::load_copy(&self.config_path(), overrides)
            .map_err(|error| self.name_other_program(error))
    }

    /// The rules that select what is trained on: those that the run began with, or the newest where
    /// none has begun.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn selection(&self) -> Result<Selection> {
        Ok(self
            .checkpoints(1)
            .newest_state()?
            .map_or_else(Selection::default, |state| state.selection))
    }

    /// Makes the directory and keeps other trainings out of it as long as the lock lives.
    ///
    /// # Errors
    /// It cannot be made, or another process trains in it: the message names that.
    pub fn lock(&self) -> Result<Lock> {
        fs::create_dir_all(&self.root)
            .with_context(|| format!("cannot make `{}`", self.root.display()))?;
        Lock::take(&self.root)
    }

    /// Makes the directory of the caches, and removes the files that a killed process left
    /// unfinished.
    ///
    /// # Errors
    /// A directory cannot be made or cleared.
    pub fn make_room(&self) -> Result<()> {
        self.make_cache()?;
        self.remove_unfinished()
    }

    /// Makes the directory of the caches, and returns it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_cache(&self) -> Result<PathBuf> {
        let cache = self.root.join("cache");
        fs::create_dir_all(&cache).with_context(|| format!("cannot make `{}`", cache.display()))?;
        Ok(cache)
    }

    /// Makes the directory a run: writes the text of its validation and test sets into it, as far
    /// as it is not there, and then the configuration.
    ///
    /// # Errors
    /// A file cannot be written; a set cannot be read.
    pub fn create(&self, config: &Config) -> Result<()> {
        let validation = self.root.join("validation");
        fs::create_dir_all(&validation)
            .with_context(|| format!("cannot make `{}`", validation.display()))?;
        self.keep_held_out(config)?;
        let path = self.config_path();
        file::replace(&path, config.to_toml()?.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Whether the run has tokenizers: of two, the target side's is written last.
    pub fn has_tokenizers(&self) -> bool {
        ["tokenizer.json", "tokenizer.tgt.json"]
            .iter()
            .any(|file| self.root.join(file).exists())
    }

    /// The tokenizers of the run.
    ///
    /// # Errors
    /// They are missing or damaged.
    pub fn tokenizers(&self) -> Result<Tokenizers> {
        let advice =
            "this is the run's own tokenizer, without which its weights are useless; restore it";
        Tokenizers::load(&self.root)
            .with_context(|| format!("the tokenizer of the run `{}`", self.root.display()))
            .map_err(|error| with_hint(error, advice))
    }

    /// Removes the tokenizers, so that the next training learns new ones.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_tokenizers(&self) -> Result<()> {
        for name in ["tokenizer.json", "tokenizer.src.json", "tokenizer.tgt.json"] {
            let path = self.root.join(name);
            if path.is_file() {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    /// Loads the model of a checkpoint: `best`, `last`, `step-N`, `average`, `ema` (the exponential
    /// moving average in the last checkpoint), the name of another, or a path. A run without
    /// validation has no `best`; its last checkpoint stands in.
    ///
    /// # Errors
    /// There is no such checkpoint, it is damaged, or it does not fit the configuration.
    pub fn load(&self, checkpoint: &str, device: &Device) -> Result<TrainedModel> {
        let config = self.config()?;
        let tokenizers = self.tokenizers()?;
        let (checkpoint, weights) = self.weights(checkpoint)?;
        if let Some(parts) = &checkpoint.state.parts {
            parts.check_model_is_built_in()?;
        }
        self.check_tokenizers(&checkpoint, &tokenizers)?;
        let plan = Plan::on(config, device.clone(), None);
        let model = load_for_search(&plan.model_shape(&tokenizers)?, weights, device)?;
        Ok(TrainedModel {
            plan,
            tokenizers,
            model,
            checkpoint,
        })
    }

    /// Makes sure that a checkpoint was trained with these tokenizers.
    ///
    /// # Errors
    /// It was not: it is of another run, or the run's tokenizers have changed since (the hint says
    /// which).
    pub fn check_tokenizers(&self, checkpoint: &Checkpoint, tokenizers: &Tokenizers) -> Result<()> {
        let text = checkpoint.state.text.as_ref();
        if text.is_none_or(|text| hash(tokenizers).is_ok_and(|hash| hash == text.tokenizers)) {
            return Ok(());
        }
        let root = self.root.display();
        let path = checkpoint.path.display();
        // Of a checkpoint in its run, `checkpoints/` and the run are above it.
        let other = checkpoint
            .path
            .parent()
            .and_then(Path::parent)
            .filter(|other| !file::is_same(other, &self.root));
        if let Some(other) = other {
            let error = failed!(
                "`{path}` belongs to another run than `{root}`, which has another tokenizer"
            );
            let advice = format!("name that run instead of this one: `{}`", other.display());
            return Err(with_hint(usage(error), advice));
        }
        let error =
            failed!("the tokenizer in `{root}` is not the one that its model was trained with");
        Err(with_hint(error, "restore the old `tokenizer.json`"))
    }

    /// The weights of a checkpoint, named as for [`Self::load`].
    ///
    /// # Errors
    /// There is no such checkpoint, or it is damaged.
    pub fn weights(&self, checkpoint: &str) -> Result<(Checkpoint, Weights)> {
        let checkpoints = self.checkpoints(1);
        let found = match checkpoint {
            "ema" => checkpoints.find("last")?,
            "best" if !checkpoints.has("best") => checkpoints.find("last")?,
            name => checkpoints.find(name)?,
        };
        let weights = if checkpoint == "ema" {
            found.ema()?
        } else {
            found.model()?
        };
        Ok((found, weights))
    }
}

/// SHA-256 of the tokenizers of both sides, in hexadecimal digits.
///
/// # Errors
/// A tokenizer cannot be written as JSON.
pub fn hash(tokenizers: &Tokenizers) -> Result<String> {
    let mut hash = Sha256::new();
    for side in [&tokenizers.src, &tokenizers.tgt] {
        hash.update(side.to_json()?);
    }
    Ok(hexadecimal(&hash.finalize()))
}

/// SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// A hash as it is written into checkpoints.
pub(crate) fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::new(), |mut digits, byte| {
        digits.extend(
            [byte >> 4, byte & 15]
                .map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or_default()),
        );
        digits
    })
}
