//! The value of `data.train`: which corpora are read, and how often.

use std::fmt;
use std::path::PathBuf;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::noise::Noise;

/// Training text: one corpus, or several with weights.
///
/// A corpus is a prefix (`data/train` for `data/train.en` and `data/train.de`, plain or with `.gz`
/// or `.zst`), one file with both sides that ends in `.tsv` or `.tmx`, compressed or not, or a zip
/// archive of OPUS, whose members end in the languages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrainFiles {
    /// One corpus, read once per epoch.
    One(PathBuf),
    /// Several corpora, each read `weight` times per epoch.
    Weighted(Vec<WeightedPath>),
}

/// Written out, because a derived implementation would not say which key of a table is unknown.
impl<'de> Deserialize<'de> for TrainFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrTables;

        impl<'de> Visitor<'de> for PathOrTables {
            type Value = TrainFiles;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter
                    .write_str("a path, or a list of tables `{ path = \"...\", weight = 1.0 }`")
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<TrainFiles, E> {
                Ok(TrainFiles::One(path.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, tables: A) -> Result<TrainFiles, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(tables)).map(TrainFiles::Weighted)
            }
        }

        deserializer.deserialize_any(PathOrTables)
    }
}

/// One of several training corpora.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table `{ path = \"...\", weight = 1.0 }`"
)]
pub struct WeightedPath {
    /// Prefix, TSV or TMX file, or archive.
    pub path: PathBuf,
    /// Number of times that each of its pairs occurs in an epoch: 2.0 means twice, 0.5 a random
    /// half.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Word alignments of the corpus in the Pharaoh format, one line per pair, or `learned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Token that the corpus's sources begin with, behind `src_tag`, and no others: it tells the
    /// model the kind of text, such as `<bt>` for back-translations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The corpus's own `data.src`, where it has another language than validation text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// The corpus's own `data.tgt`, where it has another language than validation text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt: Option<String>,
    /// The corpus's own `data.src_tag`, where it has another language than validation text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_tag: Option<String>,
    /// The corpus's own `data.tgt_tag`, where it has another language than validation text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgt_tag: Option<String>,
    /// Noise in the corpus's sources, in place of `[data.noise]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Training steps that are made without the corpus, before it is trained on; default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u64,
    /// Training step after which the corpus is no longer trained on; to the end if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl WeightedPath {
    /// Makes the entry of a corpus that is read once per epoch, with defaults for all else.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            weight: default_weight(),
            alignments: None,
            tag: None,
            src: None,
            tgt: None,
            src_tag: None,
            tgt_tag: None,
            noise: None,
            from: 0,
            until: None,
        }
    }
}

fn default_weight() -> f64 {
    1.0
}

/// Whether a key is left out of a config that is written: old configs are then written as they
/// were.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
