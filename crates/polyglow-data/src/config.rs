//! The `[data]` table of a configuration: which text or images to read, and which examples to train on.

#[cfg(feature = "training")]
mod files;
#[cfg(feature = "training")]
mod validate;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::DataError;

#[cfg(feature = "training")]
pub(crate) use files::no_such_set;

/// The `[data]` table: either an embedded corpus or files, and how they are read.
///
/// ```
/// use polyglow_data::config::DataConfig;
///
/// let config: DataConfig = serde_json::from_str(r#"{ "train": "data/train", "src": "en", "tgt": "de" }"#)?;
/// config.validate()?;
/// assert_eq!(config.max_len, 256);
///
/// let error = DataConfig { max_len: 0, ..config }.validate().unwrap_err();
/// assert_eq!(error.to_string(), "`data.max_len` must lie in 1..=65535, not 0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// An embedded corpus, such as `mini-en-de`, instead of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// Training text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<TrainFiles>,
    /// Validation text, as a prefix or a TSV file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<PathBuf>,
    /// Test text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestFiles>,
    /// Word alignments of the training text in the Pharaoh format, one line per pair, or `gold` for those of an
    /// embedded corpus. In a list of training corpora, each entry has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Source language, which is the extension of the source files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Target language, which is the extension of the target files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt: Option<String>,
    /// Maximum length in tokens of each side of a training pair; longer pairs are left out.
    #[serde(default = "default_max_len")]
    pub max_len: usize,
    /// Maximum ratio of the longer side to the shorter, in tokens; other pairs are left out of training.
    #[serde(default = "default_max_length_ratio")]
    pub max_length_ratio: f64,
    /// Length in positions of the windows in which one-sided text is read, as a stream across the ends of lines. If
    /// missing, the text is read line by line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_len: Option<NonZeroUsize>,
    /// Maximum distance of a context word, for word vectors; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Number of noise words for each context word, for word vectors; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negatives: Option<usize>,
    /// Share of the text above which occurrences of a word are left out at random, for word vectors; default 0.001, 0
    /// for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsample: Option<f64>,
    /// Whether only targets are read, each a text of its own, for language models. Not a key: it follows from the
    /// architecture.
    #[serde(skip)]
    pub one_sided: bool,
    /// Train on the first so many pairs of the training text only; if missing, on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_examples: Option<u64>,
    /// Height and width in pixels to which images are resized; default 32 by 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<[usize; 2]>,
    /// Whether images are converted to gray, with one channel instead of three.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grayscale: bool,
    /// Whether training images are mirrored and turned by quarter turns at random.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub augment: bool,
    /// What has labels, if the targets are labels. Not a key: it follows from the architecture.
    #[serde(skip)]
    pub labeled: Option<Labeled>,
}

/// What has labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labeled {
    /// Texts: files with one `label<TAB>text` per line.
    Texts,
    /// Images: folders named by their labels, or MNIST's files.
    Images,
}

/// Training text: one corpus, or several with weights.
///
/// A corpus is a prefix (`data/train` for `data/train.en` and `data/train.de`, plain or with `.gz`) or one file that
/// ends in `.tsv` or `.tsv.gz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a path, or a list of tables `{ path = \"...\", weight = 1.0 }`")]
pub enum TrainFiles {
    /// One corpus, read once per epoch.
    One(PathBuf),
    /// Several corpora, each read `weight` times per epoch.
    Weighted(Vec<WeightedPath>),
}

/// One of several training corpora.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedPath {
    /// Prefix or TSV file.
    pub path: PathBuf,
    /// How often each of its pairs occurs in an epoch: 2.0 means twice, 0.5 a random half.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Word alignments of the corpus in the Pharaoh format, one line per pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
}

/// Test text: one corpus, or several by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a path, or a table of names and paths")]
pub enum TestFiles {
    /// One corpus, called `test`.
    One(PathBuf),
    /// Several corpora, by the name that `--split` takes.
    Named(BTreeMap<String, PathBuf>),
}

/// The training, validation or test part of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split<'a> {
    /// The text that the parameters are trained on.
    Train,
    /// The text that progress is measured on during training.
    Valid,
    /// A test set, by name; a single one is called `test`.
    Test(&'a str),
}

/// The value of `data.alignments` that stands for the alignments of an embedded corpus.
pub const GOLD: &str = "gold";

const DEFAULT_MAX_LEN: usize = 256;
const DEFAULT_MAX_LENGTH_RATIO: f64 = 9.0;
const DEFAULT_IMAGE_SIZE: [usize; 2] = [32, 32];

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            corpus: None,
            train: None,
            valid: None,
            test: None,
            alignments: None,
            src: None,
            tgt: None,
            max_len: default_max_len(),
            max_length_ratio: default_max_length_ratio(),
            context_len: None,
            window: None,
            negatives: None,
            subsample: None,
            one_sided: false,
            max_examples: None,
            image_size: None,
            grayscale: false,
            augment: false,
            labeled: None,
        }
    }
}

impl DataConfig {
    /// The configuration that reads the embedded corpus `name` with all defaults.
    pub fn embedded(name: &str) -> Self {
        Self { corpus: Some(name.to_owned()), ..Self::default() }
    }

    /// Height and width of images, in pixels.
    pub fn image_size(&self) -> [usize; 2] {
        self.image_size.unwrap_or(DEFAULT_IMAGE_SIZE)
    }

    /// Height, width and channels of images; `None` if the data are not images.
    pub fn image_shape(&self) -> Option<[usize; 3]> {
        let [height, width] = self.image_size();
        (self.labeled == Some(Labeled::Images)).then_some([height, width, if self.grayscale { 1 } else { 3 }])
    }

    /// Whether at least some of the training text comes with word alignments.
    pub fn is_aligned(&self) -> bool {
        let listed = match &self.train {
            Some(TrainFiles::Weighted(list)) => list.iter().any(|entry| entry.alignments.is_some()),
            _ => false,
        };
        listed || self.alignments.is_some()
    }
}

pub(crate) fn wrong(key: &'static str, problem: String) -> DataError {
    DataError::Config { key, problem }
}

fn default_max_len() -> usize {
    DEFAULT_MAX_LEN
}

fn default_max_length_ratio() -> f64 {
    DEFAULT_MAX_LENGTH_RATIO
}

fn default_weight() -> f64 {
    1.0
}
