//! The `[data]` table of a configuration: which text or images to read, and which examples to train
//! on.

mod clean_config;
mod content;
#[cfg(feature = "training")]
mod files;
mod filter_group;
mod train_files;
#[cfg(feature = "training")]
mod validate;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::noise::Noise;
use crate::pair_tags::PairTags;
use crate::skip_gram::SkipGrams;

pub use clean_config::CleanConfig;
pub use content::{Content, SourceKind, TargetKind};
pub use filter_group::FilterGroup;
pub use train_files::{TrainFiles, WeightedPath};

#[cfg(feature = "training")]
pub(crate) use files::no_such_set;

/// The `[data]` table: either an embedded corpus or files, and how they are read.
///
/// ```
/// use polyglow_data::config::{Content, DataConfig};
///
/// let config: DataConfig = serde_json::from_str(r#"{ "train": "data/train", "src": "en", "tgt": "de" }"#)?;
/// config.validate(Content::PAIRS)?;
/// assert_eq!(config.max_len, 256);
///
/// let error = DataConfig { max_len: 0, ..config }.validate(Content::PAIRS).unwrap_err();
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
    /// Word alignments of the training text in the Pharaoh format, one line per pair; `gold` for
    /// those of an embedded corpus, `learned` for those that are learned from the text itself. In a
    /// list of training corpora, each entry has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Source language, which is the extension of the source files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Target language, which is the extension of the target files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt: Option<String>,
    /// Whether the sides of all text are exchanged, so that a model translates from `tgt` to `src`, as
    /// the one does that makes back-translations; default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reverse: bool,
    /// Token that every source begins with, such as `eng_Latn`, in training and in use; none if it
    /// is missing. A text that spells it does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_tag: Option<String>,
    /// Token that every target begins with, such as `deu_Latn`: training learns it, every search
    /// begins with it at no cost, and no output or score has it; none if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt_tag: Option<String>,
    /// Maximum length in tokens of each side of a training pair; longer pairs are left out.
    #[serde(default = "default_max_len")]
    pub max_len: usize,
    /// Maximum ratio of the longer side to the shorter, in tokens; other pairs are left out of
    /// training.
    #[serde(default = "default_max_length_ratio")]
    pub max_length_ratio: f64,
    /// Rules by which training pairs are left out, besides the two above, by the names under which
    /// the program has registered them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// Whether training text is cleaned before it is read, as `polyglow clean` does it: repaired, and
    /// without pairs that are no translation, that repeat others, or that are in a held-out set. `true`,
    /// or the table `[data.clean]` with settings; default false.
    #[serde(
        default,
        with = "clean_config",
        skip_serializing_if = "Option::is_none"
    )]
    pub clean: Option<CleanConfig>,
    /// Noise in the sources that are trained on, drawn anew in every epoch: the table `[data.noise]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Length in positions of the windows in which one-sided text is read, as a stream across the
    /// ends of lines. If missing, the text is read line by line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_len: Option<NonZeroUsize>,
    /// Number of examples to train on: of text the first pairs, of images and captions a sample of
    /// all by the seed; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_examples: Option<u64>,
    /// The table `[data.images]`, for models of images only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageConfig>,
    /// Folder in which the images of captions are looked for; default: where the layout of the
    /// captions has them. Only for captions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_folder: Option<PathBuf>,
    /// The table `[data.words]`: the pairs of words that vectors are learned from; for word vectors
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<SkipGrams>,
}

/// The table `[data.images]`: the form to which images are converted before a model reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageConfig {
    /// Height and width, in pixels, to which images are resized; default `[32, 32]`.
    pub size: [usize; 2],
    /// Whether images have one byte per pixel instead of red, green and blue; default false.
    pub grayscale: bool,
    /// Whether images are mirrored and turned by quarter turns at random while a model is trained;
    /// default false.
    pub augment: bool,
}

impl Default for ImageConfig {
    fn default() -> Self {
        Self {
            size: [32, 32],
            grayscale: false,
            augment: false,
        }
    }
}

impl ImageConfig {
    /// Height, width and bytes of a pixel.
    pub fn shape(&self) -> [usize; 3] {
        let [height, width] = self.size;
        [height, width, if self.grayscale { 1 } else { 3 }]
    }
}

/// A pair of languages that a model is trained to translate between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direction {
    /// Source language.
    pub src: String,
    /// Target language.
    pub tgt: String,
    /// The tags of its sources and targets.
    pub tags: PairTags,
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

/// The value of `data.alignments` that stands for alignments that are learned from the training
/// text itself.
pub const LEARNED: &str = "learned";

const DEFAULT_MAX_LEN: usize = 256;
const DEFAULT_MAX_LENGTH_RATIO: f64 = 9.0;

/// Whether a key is left out of a config that is written: old configs are then written as they
/// were.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

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
            reverse: false,
            src_tag: None,
            tgt_tag: None,
            max_len: default_max_len(),
            max_length_ratio: default_max_length_ratio(),
            filters: Vec::new(),
            clean: None,
            noise: None,
            context_len: None,
            max_examples: None,
            images: None,
            image_folder: None,
            words: None,
        }
    }
}

impl DataConfig {
    /// The configuration that reads the embedded corpus `name` with all defaults.
    pub fn embedded(name: &str) -> Self {
        Self {
            corpus: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// The table `[data.images]`, or its defaults if there is none.
    pub fn images(&self) -> ImageConfig {
        self.images.unwrap_or_default()
    }

    /// The table `[data.words]`, or its defaults if there is none.
    pub fn words(&self) -> SkipGrams {
        self.words.unwrap_or_default()
    }

    /// The languages that a model reads and writes, where they are named.
    pub fn named_languages(&self) -> [Option<&str>; 2] {
        self.in_order([self.src.as_deref(), self.tgt.as_deref()])
    }

    /// The tags of validation and test text, and of what is translated with the model.
    pub fn tags(&self) -> PairTags {
        let [src, tgt] = self.in_order([self.src_tag.as_ref(), self.tgt_tag.as_ref()]);
        PairTags {
            src: src.into_iter().cloned().collect(),
            tgt: tgt.cloned(),
        }
    }

    /// Names the languages of a direction, and its tags, as those of validation and test text.
    ///
    /// Corpora of `data.train` that had those of the table keep them.
    pub fn set_direction(&mut self, direction: Direction) {
        if let Some(TrainFiles::Weighted(list)) = &mut self.train {
            for entry in list {
                for (own, inherited) in [
                    (&mut entry.src, &self.src),
                    (&mut entry.tgt, &self.tgt),
                    (&mut entry.src_tag, &self.src_tag),
                    (&mut entry.tgt_tag, &self.tgt_tag),
                ] {
                    if own.is_none() {
                        own.clone_from(inherited);
                    }
                }
            }
        }
        let Direction { src, tgt, tags } = direction;
        let [src, tgt] = self.in_order([src, tgt]);
        let [src_tag, tgt_tag] = self.in_order([tags.src.into_iter().next(), tags.tgt]);
        *self = Self {
            src: Some(src),
            tgt: Some(tgt),
            src_tag,
            tgt_tag,
            ..std::mem::take(self)
        };
    }

    /// Two sides as the text has them become source and target, and the other way round.
    pub(crate) fn in_order<T>(&self, [src, tgt]: [T; 2]) -> [T; 2] {
        if self.reverse { [tgt, src] } else { [src, tgt] }
    }

    /// Whether corpora of the training text come or go after some steps.
    pub fn has_steps(&self) -> bool {
        let mut entries = self.entries().iter();
        entries.any(|entry| entry.from > 0 || entry.until.is_some())
    }

    /// Whether there is noise in all of the training text.
    pub fn has_noise_everywhere(&self) -> bool {
        let entries = self.entries();
        if entries.is_empty() {
            return self.noise.is_some();
        }
        let mut entries = entries.iter();
        entries.all(|entry| entry.noise.or(self.noise).is_some())
    }

    /// The corpora of a list in `data.train`; none if it is no list.
    pub(crate) fn entries(&self) -> &[WeightedPath] {
        match &self.train {
            Some(TrainFiles::Weighted(list)) => list,
            _ => &[],
        }
    }

    /// Whether it names the training data.
    pub fn has_source(&self) -> bool {
        self.corpus.is_some() || self.train.is_some()
    }

    /// Whether there is a validation set.
    pub fn has_valid(&self) -> bool {
        // Every embedded corpus has one.
        self.corpus.is_some() || self.valid.is_some()
    }

    /// Whether all word alignments are learned from the text.
    pub fn learns_alignments(&self) -> bool {
        let is_learned = |path: &PathBuf| path == Path::new(LEARNED);
        let listed = match &self.train {
            Some(TrainFiles::Weighted(list)) => list
                .iter()
                .filter_map(|entry| entry.alignments.as_ref())
                .all(is_learned),
            _ => true,
        };
        self.is_aligned() && listed && self.alignments.as_ref().is_none_or(is_learned)
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

/// Makes the error that `key` has a wrong value; the message is the key followed by `problem`.
pub(crate) fn wrong(key: &'static str, problem: String) -> DataError {
    DataError::Config { key, problem }
}

fn default_max_len() -> usize {
    DEFAULT_MAX_LEN
}

fn default_max_length_ratio() -> f64 {
    DEFAULT_MAX_LENGTH_RATIO
}
