//! Text that has one side only, as pairs with empty sources.

use std::path::Path;

use super::files::Form;
use super::{Corpus, Part, Source, existing, parallel_source, with_ending};
use crate::config::{Content, DataConfig, Split, WeightedPath};
use crate::error::DataError;
use crate::lines::Lines;
use crate::pair::Pair;

impl Corpus {
    /// Opens a text file, plain or compressed. Each line becomes the target of a pair with an empty
    /// source.
    ///
    /// Blank lines become pairs with two empty sides. A [filter](crate::example::Filter) leaves
    /// them out of training; a text that is read in windows has none, and they stay as examples
    /// without ids, which divide documents.
    ///
    /// # Errors
    /// [`DataError::MissingFile`] if there is no such file, [`DataError::NoFile`] if there is
    /// something else; the error names `key`, a key of the configuration.
    pub fn open_text(key: &str, path: &Path) -> Result<Self, DataError> {
        let source = Source::Text(existing(key, path)?);
        Ok(Self::from_parts(vec![Part {
            is_text: true,
            ..Part::new(source, 1.0)
        }]))
    }

    /// Opens the texts of a split: files as they are named, or with `data.tgt` the target sides of
    /// parallel text.
    ///
    /// # Errors
    /// As [`Self::open_text`]; [`DataError::Config`] for a split that the configuration lacks.
    pub(super) fn open_texts(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let key = config.key(split);
        let mut parts = Vec::new();
        for WeightedPath { path, weight, .. } in config.files(split)? {
            let source = match (Form::from_path(&path), &config.tgt) {
                (Form::Tmx | Form::Moses, _) => {
                    parallel_source(&key, &path, config.languages()?.into())?
                }
                (Form::TwoFiles, Some(tgt)) => {
                    Source::Text(existing(&key, &with_ending(&path, tgt))?)
                }
                (Form::TwoFiles | Form::Tsv, _) => Source::Text(existing(&key, &path)?),
            };
            parts.push(Part {
                is_text: true,
                ..Part::new(source, weight)
            });
        }
        Ok(Self::from_parts(parts))
    }

    /// Returns the target side alone: the same pairs with empty sources and without alignments.
    #[must_use]
    pub fn target_side(self) -> Self {
        Self {
            parts: self.parts.into_iter().map(Part::target_side).collect(),
            content: Content::TEXT,
            ..self
        }
    }
}

impl Part {
    /// Reads the target file alone where each side has a file; from other sources the pairs are
    /// read whole, and [`Pairs`](super::Pairs) empties their sources.
    fn target_side(self) -> Self {
        let source = match self.source {
            Source::TwoFiles { src, .. } if self.is_reversed => Source::Text(src),
            Source::TwoFiles { tgt, .. } => Source::Text(tgt),
            source => source,
        };
        Self {
            source,
            alignments: None,
            is_text: true,
            ..self
        }
    }

    /// Whether this part has one side only.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }
}

/// Reads the next line as a pair; `None` at the end of the file.
pub(super) fn next(lines: &mut Lines) -> Result<Option<Pair>, DataError> {
    match lines.next().transpose()? {
        Some(tgt) => Ok(Some(Pair {
            src: String::new(),
            tgt,
        })),
        None if lines.line() == 0 => Err(DataError::Empty {
            path: lines.path().to_owned(),
        }),
        None => Ok(None),
    }
}
