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
            let source = source(existing(&key, &path)?);
            parts.push(Part::new(source, weight));
        }
        Ok(Self::from_parts(parts))
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
        let split = split_name(split);
        Self::generate_labeled(embedded, config, content, split)
            .ok_or_else(|| wrong("data.corpus", no_such_set(split, embedded.splits())))
    }

    /// Generates a split of a corpus; `None` if there is no such split.
    fn generate_labeled(
        embedded: Embedded,
        config: &DataConfig,
        content: Content,
        split: &str,
    ) -> Option<Self> {
        let name = format!("{} {split}", embedded.name());
        let is_text = !content.has_source();
        let pairs = match embedded {
            // These are opened by `Corpus::open` itself, with their alignments.
            Embedded::Pairs(_) => Vec::new(),
            Embedded::Texts(toy) => {
                let mut splits = toy.generate().into_iter();
                let (_, texts) = splits.find(|(name, _)| *name == split)?;
                let texts = texts.into_iter();
                if is_text {
                    texts.map(text_pair).collect()
                } else {
                    texts.map(labeled_pair).collect()
                }
            }
            Embedded::Tags(toy) => toy.pairs(split)?,
            Embedded::Captions(shapes) => captions::generated(shapes, split)?,
            Embedded::Images(shapes) => {
                let [height, width] = config.images().size;
                let images = shapes.split(split)?.resized(height, width);
                return Some(Self::from_images(name, images));
            }
        };
        let source = Source::Embedded {
            name,
            pairs: Arc::new(pairs),
        };
        let part = Part {
            is_text,
            ..Part::new(source, 1.0)
        };
        Some(Self::from_parts(vec![part]))
    }
}

/// Makes a pair of a text and its label.
pub(super) fn labeled_pair(labeled: LabeledText) -> Pair {
    Pair {
        src: labeled.text,
        tgt: labeled.label,
    }
}

/// Makes the pair of a text of one side, without its label.
fn text_pair(labeled: LabeledText) -> Pair {
    Pair {
        src: String::new(),
        tgt: labeled.text,
    }
}
