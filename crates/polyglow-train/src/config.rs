//! One TOML file is one run: the whole configuration, read strictly and checked before anything
//! else happens.

mod load;
mod max_tokens;
mod overrides;
mod train;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};

use polyglow_data::config::{Content, DataConfig};
use polyglow_data::tokenizer::TokenizerConfig;
use polyglow_model::ModelConfig;
use polyglow_model::registry::RegisteredConfig;
use polyglow_model::search::SearchConfig;
use polyglow_predict::error::{Context, Result};
use polyglow_predict::settings::{DEFAULT_MAX_TOKENS, Settings, SharedWithTraining};
use polyglow_predict::tasks::facts;
use serde::{Deserialize, Serialize};

pub use max_tokens::MaxTokens;
pub use train::{AugmentationKind, BestMetric, OptimizerKind, ScheduleKind, TaskKind, TrainConfig};

/// All that a run depends on; `configs/reference.toml` and `polyglow help config` explain every
/// key.
///
/// ```
/// use polyglow_train::Config;
///
/// let config = Config::from_text("data.corpus = 'digits'", &["train.max_steps=2".to_owned()])?;
/// assert_eq!((config.train.max_steps, config.train.lr), (Some(2), 1e-3));
///
/// let error = Config::from_text("data.corpus = 'digits'\ntrain.max_step = 2", &[]).unwrap_err();
/// assert!(error.to_string().contains("unknown field `max_step`"), "{error}");
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Decides initial weights, dropout and the order of the data; default 1.
    pub seed: u64,
    /// Name of the device, as `polyglow devices` lists it; default `"flex"`.
    pub device: String,
    /// The license that the model card of an export names, as model hubs spell it: `"cc-by-4.0"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The parallel text.
    pub data: DataConfig,
    /// The table `[tokenizer]`: how text becomes ids.
    pub tokenizer: TokenizerConfig,
    /// The size and the variant of the model.
    pub model: ModelConfig,
    /// The table `[train]`: batches, optimizer, schedule, checkpoints.
    pub train: TrainConfig,
    /// The table `[search]`: how a translation is searched for.
    pub search: SearchConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            device: "flex".to_owned(),
            license: None,
            data: DataConfig::default(),
            tokenizer: TokenizerConfig::default(),
            model: ModelConfig::default(),
            train: TrainConfig::default(),
            search: SearchConfig::default(),
        }
    }
}

impl Config {
    /// Reads a config strictly, without checking its values.
    ///
    /// # Errors
    /// An unknown key, a misspelt name or a value of the wrong type, with its line, a caret, and
    /// what may be meant.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| unknown::explain(&error))
    }

    /// Returns the kind of examples that the corpus must have for this model.
    pub fn content(&self) -> Content {
        facts(self.model.task()).content
    }

    /// Returns what the model of this config needs in order to be used.
    pub fn settings(&self) -> Settings {
        let Self {
            data,
            tokenizer,
            model,
            search,
            train,
            ..
        } = self.clone();
        let train = SharedWithTraining {
            precision: train.precision,
            max_tokens: train.max_tokens.tokens().unwrap_or(DEFAULT_MAX_TOKENS),
            pad_multiple: train.pad_multiple,
        };
        Settings {
            data,
            tokenizer,
            model,
            search,
            train,
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
        let ours = self.flatten()?;
        let theirs = other.flatten()?;
        let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let mut differences = Vec::new();
        for key in keys {
            let ours = value_or_unset(&ours, key);
            let theirs = value_or_unset(&theirs, key);
            if ours != theirs {
                differences.push(Difference {
                    key: key.clone(),
                    ours: ours.to_owned(),
                    theirs: theirs.to_owned(),
                });
            }
        }
        Ok(differences)
    }

    /// Every key that is set, with its sections, and its value as TOML.
    fn flatten(&self) -> Result<BTreeMap<String, String>> {
        let table = toml::Table::try_from(self).context("the config cannot be written as TOML")?;
        let mut pairs = BTreeMap::new();
        flatten_into(&mut pairs, "", table);
        Ok(pairs)
    }
}

/// Returns the table `[model.NAME]` of a registered architecture as TOML.
///
/// # Errors
/// It has settings that TOML does not have, such as integers of more than 63 bits.
pub fn model_table(own: &RegisteredConfig) -> Result<String> {
    let tables = BTreeMap::from([(own.architecture().name(), own.table())]);
    let section = BTreeMap::from([("model", tables)]);
    toml::to_string(&section).context("the table cannot be written as TOML")
}

fn value_or_unset<'v>(values: &'v BTreeMap<String, String>, key: &str) -> &'v str {
    values.get(key).map_or("unset", String::as_str)
}

/// Adds the keys of a table, each with `prefix` before it.
fn flatten_into(pairs: &mut BTreeMap<String, String>, prefix: &str, table: toml::Table) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => flatten_into(pairs, &format!("{key}."), inner),
            value => drop(pairs.insert(key, value.to_string())),
        }
    }
}

/// A key that has different values in two configs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key with its section: `train.lr`.
    pub key: String,
    /// Its value in the config whose method was called, or `unset`.
    pub ours: String,
    /// Its value in the other config, or `unset`.
    pub theirs: String,
}
