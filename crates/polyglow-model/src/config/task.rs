//! What models are for.

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
            Self::Masked => "hidden tokens",
        }
    }

    /// Whether an answer is one of a few labels.
    pub fn is_classification(self) -> bool {
        matches!(self, Self::Labels | Self::Images)
    }
}
