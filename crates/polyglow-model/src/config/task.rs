//! The tasks that models are trained for.

use crate::side::Side;

/// The task that a model is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To predict the target, given the source.
    Translation,
    /// To predict the next token of a text that has only one side.
    Language,
    /// To predict the neighbors of a word, in a text that has only one side.
    Words,
    /// To classify a text.
    Labels,
    /// To classify an image.
    Images,
    /// To describe an image.
    Captions,
    /// To predict the masked tokens of a text that has only one side.
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

    /// The side that a model encodes: the source, or the only side of a text.
    pub fn reading_side(self) -> Side {
        match self {
            Self::Translation | Self::Labels | Self::Images => Side::Src,
            Self::Language | Self::Words | Self::Masked | Self::Captions => Side::Tgt,
        }
    }

    /// Whether its output is a text for a source, which can be compared with references.
    pub fn has_references(self) -> bool {
        matches!(self, Self::Translation | Self::Captions)
    }

    /// Whether its output is one of a few labels.
    pub fn is_classification(self) -> bool {
        matches!(self, Self::Labels | Self::Images)
    }
}
