//! The content of a corpus: the kinds of its sources and of its targets.

/// The kinds of the two sides of an example. They follow from what a model reads and predicts.
///
/// Code that depends on the content of a corpus matches on the kind of a side, so that it also
/// serves new combinations of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The kind of each source.
    pub source: SourceKind,
    /// The kind of each target.
    pub target: TargetKind,
}

/// The kind of the source of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// Nothing: text of one side consists of targets.
    Nothing,
    /// A text.
    Text,
    /// An image.
    Image,
}

/// The kind of the target of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// A text.
    Text,
    /// A label of the whole source.
    Label,
    /// A tag for each word of the source.
    Tags,
}

impl Content {
    /// Sentences and their translations.
    pub const PAIRS: Self = Self {
        source: SourceKind::Text,
        target: TargetKind::Text,
    };
    /// Text of one side.
    pub const TEXT: Self = Self {
        source: SourceKind::Nothing,
        target: TargetKind::Text,
    };
    /// Texts with labels: files with `label<TAB>text` on each line.
    pub const LABELED_TEXT: Self = Self {
        source: SourceKind::Text,
        target: TargetKind::Label,
    };
    /// Sentences with a tag for each word, in columns.
    pub const TAGGED_TEXT: Self = Self {
        source: SourceKind::Text,
        target: TargetKind::Tags,
    };
    /// Images with labels: folders whose names are labels, or MNIST's files.
    pub const IMAGES: Self = Self {
        source: SourceKind::Image,
        target: TargetKind::Label,
    };
    /// Images with captions: pairs of the name of an image and a sentence, of which an image may
    /// have several.
    pub const CAPTIONS: Self = Self {
        source: SourceKind::Image,
        target: TargetKind::Text,
    };

    /// Returns whether both sides are text, one the translation of the other.
    pub fn is_parallel(self) -> bool {
        self == Self::PAIRS
    }

    /// Returns whether examples have a source.
    pub fn has_source(self) -> bool {
        self.source != SourceKind::Nothing
    }

    /// Returns whether the sources are images.
    pub fn has_images(self) -> bool {
        self.source == SourceKind::Image
    }

    /// Returns whether text stands in the targets, and nowhere else.
    pub fn is_text_of_targets(self) -> bool {
        self.source != SourceKind::Text && self.target == TargetKind::Text
    }

    /// Describes what examples consist of, for people: `one side`, `labels`.
    pub fn description(self) -> &'static str {
        match (self.source, self.target) {
            (SourceKind::Text, TargetKind::Text) => "pairs of sentences",
            (SourceKind::Nothing, TargetKind::Text) => "one side",
            (SourceKind::Image, TargetKind::Text) => "captions of images",
            (_, TargetKind::Label) => "labels",
            (_, TargetKind::Tags) => "tags of words",
        }
    }
}

impl Default for Content {
    /// Sentences and their translations.
    fn default() -> Self {
        Self::PAIRS
    }
}
