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
    /// To tag each word of a text.
    Tags,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Translation,
        Self::Language,
        Self::Words,
        Self::Labels,
        Self::Images,
        Self::Captions,
        Self::Masked,
        Self::Tags,
    ];

    /// The side that a model encodes: the source, or the only side of a text.
    pub fn reading_side(self) -> Side {
        match self {
            Self::Translation | Self::Labels | Self::Images | Self::Tags => Side::Src,
            Self::Language | Self::Words | Self::Masked | Self::Captions => Side::Tgt,
        }
    }
}
