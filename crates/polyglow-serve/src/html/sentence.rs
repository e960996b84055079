//! The sentences of a page, with the markup inside them.

use super::piece::Piece;

/// A sentence as a model reads it.
#[derive(Clone, Debug)]
pub(super) struct Sentence {
    /// Without markup, with single spaces.
    pub(super) text: String,
    /// The markup inside, in order.
    pub(super) marks: Vec<Mark>,
}

/// All sentences of a page, in the order in which they are read.
pub(super) struct Sentences {
    /// The code of the page's language.
    pub(super) language: String,
    /// Whether the values of attributes are translated.
    pub(super) attributes: bool,
    list: Vec<Sentence>,
}

/// A tag, or other markup without text, between two characters of a text.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// The byte of the text that it stands before.
    pub(super) at: usize,
    pub(super) kind: MarkKind,
    pub(super) markup: Vec<Piece>,
}

/// The kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MarkKind {
    /// The start tag of an element, which may end in a later block.
    Open,
    /// The end tag of an element, which may have begun in an earlier block.
    Close,
    /// An image, a comment, an element that is not translated.
    Point(Space),
    /// White space that is not shown.
    Blank,
}

/// Whether white space is shown before and after a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Space {
    pub(super) before: bool,
    pub(super) after: bool,
}

impl Sentences {
    pub(super) fn new(language: &str, attributes: bool) -> Self {
        Self {
            language: language.to_owned(),
            attributes,
            list: Vec::new(),
        }
    }

    /// Adds a sentence and returns its index.
    pub(super) fn push(&mut self, sentence: Sentence) -> usize {
        self.list.push(sentence);
        self.list.len() - 1
    }

    /// Returns the index that the next sentence will have.
    pub(super) fn next_index(&self) -> usize {
        self.list.len()
    }

    pub(super) fn into_list(self) -> Vec<Sentence> {
        self.list
    }
}
