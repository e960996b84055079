//! Arguments that choose a model, and the sizes of its batches: those of `polyglow bench` and of
//! `polyglow-bench`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use polyglow_predict::tasks::facts;
use polyglow_train::config::Config;
use polyglow_train::workload::BatchShape;

use crate::failure::{usage, with_hint};

/// The default config: Transformer-Tiny with the optimizer of the Multi30k recipe.
const TINY: &str = "data.corpus = 'mini-en-de'\nmodel.preset = 'tiny'\ntrain.max_steps = 1\ntrain.clip_norm = 25.0\n";

/// Longest side and most rows of a batch.
const MAX_ROWS: usize = 1 << 16;
/// Most target or source positions in a batch.
const MAX_POSITIONS: usize = 1 << 24;

/// The model and the training that are measured.
#[derive(Args)]
pub struct ModelArgs {
    /// The config whose model and text to measure [default: Transformer-Tiny on random sentences]
    pub config: Option<PathBuf>,
    /// Override a key of the config; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// A shape of the model, as `model.preset` has it
    #[arg(long, value_name = "PRESET", conflicts_with = "config")]
    pub(crate) model: Option<String>,
}

impl ModelArgs {
    /// Reads the config, or takes the default one.
    ///
    /// # Errors
    /// The config is wrong; there is none, and no random batches can be made for the model (exit
    /// code 2).
    pub fn load(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::load(path, &self.overrides)?,
            None => Config::from_text(TINY, &self.default_overrides())?,
        };
        if let Some(device) = &self.device {
            config.device.clone_from(device);
        }
        if self.config.is_none() {
            ensure_writes_text(&config)?;
        }
        Ok(config)
    }

    /// The overrides of the default config: those that were given win over the preset.
    fn default_overrides(&self) -> Vec<String> {
        let preset = self.model.as_ref();
        let preset = preset.map(|preset| format!("model.preset={preset}"));
        preset.into_iter().chain(self.overrides.clone()).collect()
    }
}

/// Refuses a model for which no random batches and no searches can be made.
///
/// # Errors
/// It reads images, or writes no text (exit code 2).
pub(crate) fn ensure_writes_text(config: &Config) -> anyhow::Result<()> {
    let facts = facts(config.model.task());
    let error = if facts.describes_images() {
        anyhow!("random batches and searches are made of ids, and this model reads images")
    } else if !facts.writes {
        let arch = config.model.arch.name();
        anyhow!(
            "`model.arch = \"{arch}\"` has nothing to search, and no random batches to measure without a config"
        )
    } else {
        return Ok(());
    };
    Err(with_hint(
        usage(error),
        "`polyglow bench step CONFIG` measures its training",
    ))
}

/// Reads the shape of a batch, as `128x16x16`.
///
/// # Errors
/// It is not three numbers, or the batch is too large.
pub fn parse_shape(text: &str) -> Result<BatchShape, String> {
    let sizes: Option<Vec<usize>> = text.split('x').map(parse_size).collect();
    match sizes.as_deref() {
        Some(&[rows, src_len, tgt_len]) if rows * src_len.max(tgt_len) <= MAX_POSITIONS => {
            Ok(BatchShape {
                rows,
                src_len,
                tgt_len,
            })
        }
        _ => Err(format!(
            "expected three whole numbers, as in 128x16x16: from 1 to {MAX_ROWS} each, and at most {MAX_POSITIONS} \
             positions per side"
        )),
    }
}

fn parse_size(text: &str) -> Option<usize> {
    let size = text.parse().ok()?;
    (1..=MAX_ROWS).contains(&size).then_some(size)
}

/// Sizes of the vocabulary of random sentences.
pub fn vocab_sizes() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(5..1 << 24)
}

/// Counts of measured repetitions.
pub fn repetitions() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..1_000_000)
}
