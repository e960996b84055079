//! The `[data]` table of a run: which text is read, and which pairs of it are trained on.

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

/// Which text a run reads: either an embedded corpus or files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// An embedded corpus, such as `mini-en-de`, in place of file names.
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
    /// Word alignments of the training text in the Pharaoh format, a line a pair, or `gold` for those of an embedded
    /// corpus; of several training corpora each names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Source language: the ending of the source files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Target language: the ending of the target files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt: Option<String>,
    /// Longest side, in tokens, of a pair that is trained on.
    #[serde(default = "default_max_len")]
    pub max_len: usize,
    /// Largest ratio of the longer side to the shorter, in tokens, of a pair that is trained on.
    #[serde(default = "default_max_length_ratio")]
    pub max_length_ratio: f64,
    /// Positions of the windows in which a text of one side is read, as a stream that goes on beyond the ends of lines;
    /// line by line without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_len: Option<NonZeroUsize>,
    /// Words on each side of a word that may be its context, for word vectors; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Words drawn from the noise for each of the context, for word vectors; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negatives: Option<usize>,
    /// Share of the text above which a word is left out here and there, for word vectors; default 0.001, 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsample: Option<f64>,
    /// Whether only targets are read, each a text of its own: what a language model is trained on. Not a key: it follows
    /// from the architecture.
    #[serde(skip)]
    pub one_sided: bool,
    /// The first so many pairs of the training text are trained on; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_examples: Option<u64>,
    /// Height and width, in pixels, to which images are resized; default 32 by 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<[usize; 2]>,
    /// Whether images have one byte a pixel in place of red, green and blue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grayscale: bool,
    /// Whether images are mirrored and turned by quarter turns at random while a model is trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub augment: bool,
    /// Whether targets are labels, and of what. Not a key: it follows from the architecture.
    #[serde(skip)]
    pub labeled: Option<Labeled>,
}

/// What has labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labeled {
    /// Texts: files with `label<TAB>text` on each line.
    Texts,
    /// Images: folders whose names are labels, or MNIST's files.
    Images,
}

/// Training text: one corpus, or several with weights.
///
/// A corpus is a prefix (`data/train` for `data/train.en` and `data/train.de`, plain or with `.gz`) or one file that
/// ends in `.tsv` or `.tsv.gz`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a path, or a list of tables `{ path = \"...\", weight = 1.0 }`")]
pub enum TrainFiles {
    /// One corpus, read once an epoch.
    One(PathBuf),
    /// Several corpora, each read `weight` times an epoch.
    Weighted(Vec<WeightedPath>),
}

/// One of several training corpora.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedPath {
    /// Prefix or TSV file.
    pub path: PathBuf,
    /// How often an epoch holds each of its pairs: 2.0 is twice, 0.5 a random half.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Word alignments of the corpus in the Pharaoh format, a line a pair.
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

/// A part of the data with a purpose of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split<'a> {
    /// What the parameters are learned from.
    Train,
    /// What training is watched on.
    Valid,
    /// A test set, by name; a single one is called `test`.
    Test(&'a str),
}

/// What names the alignments of an embedded corpus.
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

    /// Height, width and bytes of a pixel; none where there are no images.
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
