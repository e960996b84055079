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
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Translation,
        Self::Language,
        Self::Words,
        Self::Labels,
        Self::Images,
        Self::Captions,
        Self::Masked,
    ];

    /// The side that a model reads before it predicts anything, or as it predicts if there is only
    /// one.
    pub fn reading_side(self) -> Side {
        match self {
            Self::Translation | Self::Labels | Self::Images => Side::Src,
            Self::Language | Self::Words | Self::Masked | Self::Captions => Side::Tgt,
        }
    }
}
