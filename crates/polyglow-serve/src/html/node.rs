//! The nodes of a page: its texts, its tags and its other markup, in order.

use super::piece::Piece;

/// A part of a page, by its effect on the sentences around it.
pub(super) enum Node {
    /// Text to translate, with its entities decoded.
    Text { text: String, is_preformatted: bool },
    /// The start tag or end tag of an element with content.
    Tag {
        markup: Vec<Piece>,
        is_start: bool,
        is_inline: bool,
        partner: Partner,
    },
    /// Markup that may be inside a sentence and adds no text to it.
    Point(Vec<Piece>),
    /// Text that is not translated.
    Untranslated(Vec<Piece>),
    /// Markup that is between sentences.
    Break(Vec<Piece>),
}

/// The other tag of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Partner {
    /// It does not exist, or is not where it belongs.
    Missing,
    /// It is the node with this index.
    Node(usize),
    /// It is in another block: browsers open a formatting element again in each block until its end
    /// tag comes.
    OtherBlock,
}

impl Node {
    /// Returns the pieces of its markup; a text has none.
    pub(super) fn into_markup(self) -> Vec<Piece> {
        match self {
            Self::Tag { markup, .. }
            | Self::Point(markup)
            | Self::Untranslated(markup)
            | Self::Break(markup) => markup,
            Self::Text { .. } => Vec::new(),
        }
    }
}

/// Returns whether a node is inline and has no text to translate.
pub(super) fn is_untranslated_inline(node: &Node) -> bool {
    match node {
        Node::Tag { is_inline, .. } => *is_inline,
        Node::Point(_) | Node::Untranslated(_) => true,
        Node::Text { .. } | Node::Break(_) => false,
    }
}

/// Returns the node of an end tag.
pub(super) fn end_tag(raw: &str, is_inline: bool, partner: Partner) -> Node {
    Node::Tag {
        markup: kept(raw),
        is_start: false,
        is_inline,
        partner,
    }
}

/// Returns markup that stays as it is.
pub(super) fn kept(raw: &str) -> Vec<Piece> {
    vec![Piece::Kept(raw.to_owned())]
}
