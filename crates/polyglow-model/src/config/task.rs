//! What models are for.

use crate::side::Side;

/// What an architecture is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The target, given the source.
    Translation,
    /// The next token of a text that has only one side.
    Language,
    /// Which words stand beside a word, in a text that has only one side.
    Words,
    /// The label of a text.
    Labels,
    /// The label of an image.
    Images,
    /// The description of an image.
    Captions,
    /// The tokens that are hidden in a text that has only one side.
    Masked,
}

impl Task {
    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Translation => "translation",
            Self::Language => "language model",
            Self::Words => "word vectors",
            Self::Labels => "labels of texts",
            Self::Images => "labels of images",
            Self::Captions => "captions of images",
            Self::Masked => "hidden tokens",
        }
    }

    /// The side that a model reads before it predicts anything, or as it predicts if there is only
    /// one.
    pub fn reading_side(self) -> Side {
        match self {
            Self::Translation | Self::Labels | Self::Images => Side::Src,
            Self::Language | Self::Words | Self::Masked | Self::Captions => Side::Tgt,
        }
    }

    /// Whether it writes a text for a source, which can be compared with references.
    pub fn has_references(self) -> bool {
        matches!(self, Self::Translation | Self::Captions)
    }

    /// Whether an answer is one of a few labels.
    pub fn is_classification(self) -> bool {
        matches!(self, Self::Labels | Self::Images)
    }
}
