//! One TOML file is one run: the whole configuration, read strictly and checked before anything else happens.

mod max_tokens;
mod overrides;
mod train;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use polyglow_data::config::{DataConfig, Labeled};
use polyglow_data::framing::Framing;
use polyglow_data::skip_gram::SkipGrams;
use polyglow_data::tokenizer::TokenizerConfig;
use polyglow_model::search::SearchConfig;
use polyglow_model::{ModelConfig, Precision, Task};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result, bail, ensure, usage};

pub use max_tokens::MaxTokens;
pub use train::{BestMetric, OptimizerKind, ScheduleKind, TrainConfig};

/// All that a run depends on; `configs/reference.toml` explains every key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Decides initial weights, dropout and the order of the data; default 1.
    pub seed: u64,
    /// Name of the device, as `polyglow devices` lists it; default `"flex"`.
    pub device: String,
    /// The parallel text.
    pub data: DataConfig,
    /// How text becomes ids.
    pub tokenizer: TokenizerConfig,
    /// The size and the variant of the model.
    pub model: ModelConfig,
    /// How the model is trained.
    pub train: TrainConfig,
    /// How a translation is looked for.
    pub search: SearchConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            device: "flex".to_owned(),
            data: DataConfig::default(),
            tokenizer: TokenizerConfig::default(),
            model: ModelConfig::default(),
            train: TrainConfig::default(),
            search: SearchConfig::default(),
        }
    }
}

impl Config {
    /// Reads a config file, applies overrides (`train.lr=3e-4`), fills in what presets decide, and checks every value.
    ///
    /// # Errors
    /// Everything that is wrong is the user's to correct (exit code 2): a file that cannot be read, an unknown key or
    /// a value of the wrong type with its line and a caret, an override that does not fit, a value out of range.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the config `{file}`"));
        let text = text.map_err(usage)?;
        let config = Self::parse(&text).with_context(|| format!("in the config `{file}`"))?;
        let config = if overrides.is_empty() { config } else { overrides::apply(&text, overrides)? }.resolve();
        // A value that is out of range may come from an override.
        let place = if overrides.is_empty() { "in the config" } else { "with `--set`, in the config" };
        config.validate().with_context(|| format!("{place} `{file}`")).map_err(usage)?;
        Ok(config)
    }

    /// As [`Self::load`], of a text that is in no file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_text(text: &str, overrides: &[String]) -> Result<Self> {
        let config = overrides::apply(text, overrides)?.resolve();
        config.validate().map_err(usage)?;
        Ok(config)
    }

    /// Reads a config strictly, without checking its values.
    ///
    /// # Errors
    /// An unknown key, a misspelt name or a value of the wrong type, with its line, a caret, and what may be meant.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| unknown::explain(&error))
    }

    /// Fills in every key that a preset decides, so that the result says all it means.
    #[must_use]
    pub fn resolve(self) -> Self {
        let mut resolved = Self { model: self.model.resolve(), ..self };
        let task = resolved.model.task();
        if task == Task::Words {
            let SkipGrams { window, negatives, subsample } = SkipGrams::new(&resolved.data);
            let data = &mut resolved.data;
            (data.window, data.negatives, data.subsample) = (Some(window), Some(negatives), Some(subsample));
        }
        resolved.data.one_sided = matches!(task, Task::Language | Task::Words | Task::Masked);
        resolved.data.labeled = match task {
            Task::Labels => Some(Labeled::Texts),
            Task::Images => Some(Labeled::Images),
            Task::Translation | Task::Language | Task::Words | Task::Masked => None,
        };
        if let Some(shape) = resolved.data.image_shape() {
            resolved.data.max_len = shape.into_iter().fold(1, usize::saturating_mul);
        }
        if task != Task::Translation {
            // There are no translations to score.
            resolved.train.best_metric = BestMetric::Loss;
        }
        resolved
    }

    /// What a row of a batch is in training.
    pub fn training_framing(&self) -> Framing {
        match self.framing() {
            Framing::Images { .. } if self.data.augment => Framing::Images { turned: self.data.image_shape() },
            framing => framing,
        }
    }

    /// What a row of a batch is.
    pub fn framing(&self) -> Framing {
        match (self.model.task(), self.data.context_len) {
            (Task::Words, _) => Framing::SkipGrams(SkipGrams::new(&self.data)),
            (Task::Labels, _) => Framing::Labels,
            (Task::Images, _) => Framing::Images { turned: None },
            (Task::Masked, _) => Framing::Masked,
            (_, Some(context_len)) => Framing::Windows { context_len },
            (_, None) => Framing::Pairs,
        }
    }

    /// Checks every section's values.
    ///
    /// # Errors
    /// The message names the key, its value and what is allowed.
    pub fn validate(&self) -> Result<()> {
        // TOML's integers end here, and the seed is written into the run's own config.
        ensure!(i64::try_from(self.seed).is_ok(), "`seed = {}`: must be at most {}", self.seed, i64::MAX);
        self.data.validate()?;
        self.tokenizer.validate()?;
        self.model.validate()?;
        self.train.validate()?;
        self.search.validate()?;
        if self.data.one_sided {
            let arch = self.model.arch.name();
            let shared = self.tokenizer.shared;
            ensure!(shared, "`tokenizer.shared = false`: `model.arch = \"{arch}\"` reads text of one side");
        }
        self.validate_words()?;
        ensure!(
            self.data.context_len.is_none() || self.model.task() == Task::Language,
            "`data.context_len`: belongs to language models"
        );
        ensure!(
            self.data.context_len.is_none() || self.tokenizer.dropout == 0.0,
            "`tokenizer.dropout`: the windows of `data.context_len` are cut before words are segmented; set it to 0"
        );
        let weight = self.train.alignment_weight;
        if weight > 0.0 {
            let key = format!("`train.alignment_weight = {weight}`");
            ensure!(self.model.has_attention(), "{key}: this model has no attention to a source");
            ensure!(self.data.is_aligned(), "{key}: there are no `data.alignments` to learn from");
            ensure!(
                self.tokenizer.dropout == 0.0,
                "{key}: alignments do not know the tokens that `tokenizer.dropout` makes; set that to 0"
            );
        }
        Ok(())
    }

    /// Checks the keys of word vectors, and those that these leave no meaning.
    fn validate_words(&self) -> Result<()> {
        let Self { data, model, .. } = self;
        if model.arch.task() == Task::Words {
            let smoothing = self.train.label_smoothing;
            ensure!(
                smoothing == 0.0,
                "`train.label_smoothing = {smoothing}`: a word stands beside another or does not; set it to 0, which is not the default"
            );
            ensure!(
                self.tokenizer.dropout == 0.0,
                "`tokenizer.dropout`: word vectors are learned of whole words; set it to 0"
            );
            ensure!(
                self.train.precision == Precision::F32,
                "`train.precision`: word vectors have no matrix products to round; set it to `\"f32\"`"
            );
            ensure!(
                data.context_len.is_none(),
                "`data.context_len` belongs to language models; how far word vectors see is `data.window`"
            );
            return Ok(());
        }
        let keys = [
            ("window", data.window.is_some()),
            ("negatives", data.negatives.is_some()),
            ("subsample", data.subsample.is_some()),
        ];
        match keys.iter().find(|(_, given)| *given) {
            Some((key, _)) => bail!("`data.{key}` belongs to word vectors, `model.arch = \"skipgram\"`"),
            None => Ok(()),
        }
    }

    /// The config as TOML that reads back to the same config.
    ///
    /// # Errors
    /// A number is beyond TOML's integers, which [`Config::validate`] rules out.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).context("the config cannot be written as TOML")
    }

    /// The keys, in alphabetical order, whose values are not the same in both configs.
    ///
    /// # Errors
    /// As [`Config::to_toml`].
    pub fn differences(&self, other: &Self) -> Result<Vec<Difference>> {
        let (ours, theirs) = (self.flatten()?, other.flatten()?);
        let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let value_of = |values: &BTreeMap<_, _>, key| values.get(key).cloned().unwrap_or_else(|| "unset".to_owned());
        let differences = keys.into_iter().map(|key| Difference {
            key: key.clone(),
            ours: value_of(&ours, key),
            theirs: value_of(&theirs, key),
        });
        Ok(differences.filter(|difference| difference.ours != difference.theirs).collect())
    }

    /// Every key that is set, with its section, and its value as TOML.
    fn flatten(&self) -> Result<BTreeMap<String, String>> {
        let table = toml::Table::try_from(self).context("the config cannot be written as TOML")?;
        let mut pairs = BTreeMap::new();
        for (section, value) in table {
            match value {
                toml::Value::Table(keys) => {
                    pairs.extend(keys.into_iter().map(|(key, value)| (format!("{section}.{key}"), value.to_string())));
                }
                value => pairs.extend([(section, value.to_string())]),
            }
        }
        Ok(pairs)
    }
}

/// A key that has different values in two configs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key with its section: `train.lr`.
    pub key: String,
    /// Its value in the config that was asked, or `unset`.
    pub ours: String,
    /// Its value in the other config, or `unset`.
    pub theirs: String,
}
