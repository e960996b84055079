//! The keys of a run's config on which the use of its model depends.

use std::sync::Arc;

use polyglow_data::config::{DataConfig, ImageConfig};
use polyglow_data::tokenizer::{TokenizerConfig, Tokenizers};
use polyglow_model::search::SearchConfig;
use polyglow_model::{ImageShape, ModelConfig, ModelShape, Precision, Vocabulary};
use serde::{Deserialize, Deserializer};

use crate::error::{Result, failed, usage};
use crate::tasks::{TaskUse, task_use};

/// The number of tokens of a batch if the config names none.
pub const DEFAULT_MAX_TOKENS: usize = 4096;

/// Returns the number that padded lengths are rounded up to multiples of if the config names none: 8 on
/// a GPU, whose kernels are tuned and compiled for each shape, so that there should be few shapes; 1 on
/// a CPU, which has no such cost.
pub fn default_pad_multiple(on_host: bool) -> usize {
    if on_host { 1 } else { 8 }
}

/// The tables of a run's `config.toml` that a trained model depends on. Those about training are
/// read only as far as they concern the use of the model.
///
/// ```
/// use polyglow_predict::Settings;
///
/// let settings = Settings::parse("seed = 3\nmodel.arch = 'rnn'\ntrain = { lr = 1e-3 }")?;
/// assert_eq!(settings.task().facts().name, "translation");
/// assert!(settings.model.d_model.is_some());
/// # Ok::<(), polyglow_predict::TrainError>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The languages, and the size of images.
    pub data: DataConfig,
    /// The tokenizers, of which the lengths matter here.
    pub tokenizer: TokenizerConfig,
    /// The size and the variant of the model.
    pub model: ModelConfig,
    /// The defaults of search requests.
    pub search: SearchConfig,
    /// The keys that training and use have in common.
    pub train: SharedWithTraining,
}

/// The keys of the `[train]` table that concern the use of a model, too.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
pub struct SharedWithTraining {
    /// The floating-point format that products are computed in.
    pub precision: Precision,
    /// Padded positions of a batch at most.
    #[serde(deserialize_with = "number_or_default")]
    pub max_tokens: usize,
    /// The number that padded lengths are rounded up to multiples of; `None` for the default of the
    /// device.
    pub pad_multiple: Option<usize>,
}

impl Default for SharedWithTraining {
    fn default() -> Self {
        Self {
            precision: Precision::default(),
            max_tokens: DEFAULT_MAX_TOKENS,
            pad_multiple: None,
        }
    }
}

/// Reads a number of tokens; returns the default for `"auto"`, which only a training resolves.
fn number_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Tokens(usize),
        Named(serde::de::IgnoredAny),
    }

    match Size::deserialize(deserializer)? {
        Size::Tokens(tokens) => Ok(tokens),
        Size::Named(_) => Ok(DEFAULT_MAX_TOKENS),
    }
}

impl Settings {
    /// Reads the content of a run's `config.toml`, and fills in what presets decide.
    ///
    /// # Errors
    /// It is not TOML, or a table that a model depends on has an unknown key or a value of the
    /// wrong type.
    pub fn parse(config: &str) -> Result<Self> {
        let settings: Self =
            toml::from_str(config).map_err(|error| usage(failed!("in the config: {error}")))?;
        Ok(Self {
            model: settings.model.resolve(),
            ..settings
        })
    }

    /// Returns the task that the model was trained for.
    pub fn task(&self) -> Arc<dyn TaskUse> {
        task_use(&self.model, &self.data)
    }

    /// Returns the number of positions of the longest text that the model reads or writes.
    pub fn num_positions(&self) -> usize {
        // New segmentations of words may lengthen a sentence that was just short enough, and each has an
        // end-of-sentence token.
        let longest_sentence = self.tokenizer.planned_len(self.data.max_len) + 1;
        self.task().num_positions().unwrap_or(longest_sentence)
    }

    /// Returns the shape of the model, which depends on the sizes of the vocabularies.
    ///
    /// # Errors
    /// A size does not fit, such as tied embeddings over separate vocabularies.
    pub fn shape(&self, tokenizers: &Tokenizers) -> Result<ModelShape> {
        let vocabulary = Vocabulary {
            src_size: tokenizers.src.vocab_size(),
            tgt_size: tokenizers.tgt.vocab_size(),
            shared: tokenizers.is_shared(),
            src_pad_id: tokenizers.src.special().pad,
            tgt_pad_id: tokenizers.tgt.special().pad,
            max_len: self.num_positions(),
            image: self.task().images().map(image_shape),
        };
        let shape = self.model.shape(vocabulary)?;
        Ok(shape.with_precision(self.train.precision))
    }
}

fn image_shape(images: ImageConfig) -> ImageShape {
    let [height, width, channels] = images.shape();
    ImageShape {
        height,
        width,
        channels,
    }
}
