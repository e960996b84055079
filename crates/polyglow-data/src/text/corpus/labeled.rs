//! Labeled texts, as pairs of a text and its label.

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
        let key = config.key(split);
        let parts =
            config
                .files(split)?
                .into_iter()
                .map(|WeightedPath { path, weight, .. }| {
                    let source = Source::Labeled(existing(&key, &path)?);
                    Ok(Part {
                        source,
                        weight,
                        alignments: None,
                        is_text: false,
                    })
                });
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
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
        let is_text = content == Content::Text;
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
