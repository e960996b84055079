//! What every command that uses a trained model starts from.

use std::path::PathBuf;

use anyhow::anyhow;
use burn::tensor::Device;

use crate::failure::{usage, with_hint};
use polyglow_train::config::Config;
use polyglow_train::device;
use polyglow_train::run::{RunDirectory, TrainedModel};

/// What a run may be used with otherwise than it was trained: everything that leaves the model and its ids alone.
const FREE_KEYS: [&str; 4] = ["search.", "data.", "train.tokenize=", "train.max_tokens="];

/// Which model to use, and how.
#[derive(Clone, Debug)]
pub struct ModelArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// `best`, `last`, `step-N`, `average`, `ema`, `int8`, or the path of a checkpoint.
    pub checkpoint: String,
    /// Run directories or checkpoints of further models that decide together with the first.
    pub ensemble: Vec<PathBuf>,
    /// Keys of the run's config to override, as `search.key=value`.
    pub overrides: Vec<String>,
    /// Hypotheses to keep at each position, in place of the config's.
    pub beam_size: Option<usize>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
}

impl ModelArgs {
    /// The run's config with what the arguments change in it, and the device.
    ///
    /// # Errors
    /// There is no such run or device; an override is wrong, or of a key that the model depends on (exit code 2).
    pub fn open(&self) -> anyhow::Result<(Config, Device)> {
        if let Some(fixed) = self.overrides.iter().find(|set| !FREE_KEYS.iter().any(|free| set.starts_with(free))) {
            let error = usage(anyhow!("`--set {fixed}`: the trained model depends on that key"));
            let free = FREE_KEYS.map(|key| key.trim_end_matches(['.', '='])).join("`, `");
            return Err(with_hint(error, format!("what can be set here is `{free}`")));
        }
        let mut overrides = self.overrides.clone();
        overrides.extend(self.beam_size.map(|beam_size| format!("search.beam_size={beam_size}")));
        let run = RunDirectory::existing(&self.run)?;
        let config = Config::load(&run.config_path(), &overrides)?;
        let device = device::open(self.device.as_ref().unwrap_or(&config.device))?;
        Ok((config, device))
    }

    /// The models, that of the run first.
    ///
    /// # Errors
    /// As [`RunDirectory::load`] and [`TrainedModel::load`].
    pub fn load(&self, device: &Device) -> anyhow::Result<Vec<TrainedModel>> {
        let mut models = vec![RunDirectory::existing(&self.run)?.load(&self.checkpoint, device)?];
        for path in &self.ensemble {
            models.push(TrainedModel::load(path, device)?);
        }
        Ok(models)
    }
}
