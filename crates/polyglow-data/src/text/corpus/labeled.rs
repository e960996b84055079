//! Labeled and tagged texts, as pairs of a text and its label or tags.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Corpus, Part, Source, captions, existing, split_name};
use crate::config::{Content, DataConfig, Split, WeightedPath, no_such_set, wrong};
use crate::error::DataError;
use crate::labeled::LabeledText;
use crate::pair::Pair;
use crate::toy::Embedded;

impl Corpus {
    /// Opens the labeled texts of a split.
    ///
    /// # Errors
    /// [`DataError::MissingFile`]; [`DataError::Config`] for a split that the configuration lacks.
    pub(super) fn open_labeled(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        Self::open_files(config, split, Source::Labeled)
    }

    /// Opens the tagged texts of a split.
    ///
    /// # Errors
    /// As [`Self::open_labeled`].
    pub(super) fn open_tagged(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        Self::open_files(config, split, Source::Tagged)
    }

    /// Opens the files of a split, each of which is a `source` of its own.
    fn open_files(
        config: &DataConfig,
        split: Split,
        source: fn(PathBuf) -> Source,
    ) -> Result<Self, DataError> {
        let key = config.key(split);
        let mut parts = Vec::new();
        for WeightedPath { path, weight, .. } in config.files(split)? {
            parts.push(Part {
                source: source(existing(&key, &path)?),
                weight,
                alignments: None,
                is_text: false,
            });
        }
        Ok(Self {
            parts,
            ..Self::default()
        })
    }

    /// Generates the labeled texts or images of a split; the texts alone for a corpus of text that
    /// has one side.
    ///
    /// # Errors
    /// [`DataError::Config`] for a split that does not exist.
    pub(super) fn embedded_labeled(
        embedded: Embedded,
        config: &DataConfig,
        content: Content,
        split: Split,
    ) -> Result<Self, DataError> {
        let (name, split) = (
            format!("{} {}", embedded.name(), split_name(split)),
            split_name(split),
        );
        let unknown = || wrong("data.corpus", no_such_set(split, embedded.splits()));
        let is_text = !content.has_source();
        let pairs = match embedded {
            Embedded::Pairs(_) => Vec::new(),
            Embedded::Texts(toy) => {
                let (_, texts) = toy
                    .generate()
                    .into_iter()
                    .find(|(name, _)| *name == split)
                    .ok_or_else(unknown)?;
                let pair = |LabeledText { label, text }| {
                    if is_text {
                        Pair {
                            src: String::new(),
                            tgt: text,
                        }
                    } else {
                        Pair {
                            src: text,
                            tgt: label,
                        }
                    }
                };
                texts.into_iter().map(pair).collect()
            }
            Embedded::Tags(toy) => toy.pairs(split).ok_or_else(unknown)?,
            Embedded::Captions(shapes) => captions::generated(shapes, split).ok_or_else(unknown)?,
            Embedded::Images(shapes) => {
                let [height, width] = config.images().size;
                let images = shapes
                    .split(split)
                    .ok_or_else(unknown)?
                    .resized(height, width);
                return Ok(Self::of_images(name, images));
            }
        };
        let source = Source::Embedded {
            name,
            pairs: Arc::new(pairs),
        };
        Ok(Self {
            parts: vec![Part {
                source,
                weight: 1.0,
                alignments: None,
                is_text,
            }],
            ..Self::default()
        })
    }
}
