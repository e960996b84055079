//! Which elements are open where: what is translated, and which tags belong together.

use super::attribute;
use super::element::{
    ended_by, is_foreign, is_formatting, is_inline, is_opaque, is_preformatted, is_untranslated,
    is_void, open_after_start,
};
use super::markup::{Tag, Token, Tokens};
use super::piece::{Piece, append};
use super::sentence::Sentences;

/// Elements inside each other that are kept apart; browsers have the same limit.
const DEEPEST: usize = 512;

/// A part of a page, by what it means for the sentences around it.
pub(super) enum Node {
    /// Text to translate, with its entities decoded.
    Text { text: String, is_preformatted: bool },
    /// A tag; `partner` is the other one of its element, if both are where they belong.
    Tag {
        markup: Vec<Piece>,
        is_inline: bool,
        partner: Option<usize>,
    },
    /// What may stand inside a sentence and has no text of it.
    Point(Vec<Piece>),
    /// Text that is not translated.
    Untranslated(Vec<Piece>),
    /// What stands between sentences.
    Break(Vec<Piece>),
}

/// An open element.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of HTML that the others do not imply"
)]
struct Element {
    name: String,
    /// Its start tag.
    node: usize,
    /// What the element itself says of its translation.
    own: Option<bool>,
    is_translated: bool,
    is_preformatted: bool,
    /// Whether it is in `svg` or `math`.
    is_foreign: bool,
    /// Whether an element around it ended before it.
    is_crossed: bool,
}

/// The nodes of a page. `on_tag` is called with each tag as it was written, in order.
pub(super) fn nodes<'p>(
    page: &'p str,
    sentences: &mut Sentences,
    on_tag: &mut dyn FnMut(&'p str),
) -> Vec<Node> {
    let mut tree = Tree {
        nodes: Vec::new(),
        open: Vec::new(),
        sentences,
    };
    let mut tokens = Tokens::new(page);
    while let Some(token) = tokens.next() {
        match token {
            Token::Start(tag) => {
                on_tag(tag.raw);
                tree.start(&tag);
                if !tree.is_foreign() {
                    tokens.enter(&tag.name);
                }
            }
            Token::End { name, raw } => {
                on_tag(raw);
                tree.end(&name, raw);
            }
            Token::Text { text, raw } => tree.text(text, raw),
            Token::Comment(raw) => tree.nodes.push(Node::Point(kept(raw))),
            Token::Other(raw) => tree.nodes.push(Node::Break(kept(raw))),
        }
    }
    tree.nodes
}

struct Tree<'s> {
    nodes: Vec<Node>,
    /// From the outermost.
    open: Vec<Element>,
    sentences: &'s mut Sentences,
}

impl Tree<'_> {
    fn is_translated(&self) -> bool {
        self.open.last().is_none_or(|element| element.is_translated)
    }

    fn is_foreign(&self) -> bool {
        self.open.last().is_some_and(|element| element.is_foreign)
    }

    fn names(&self) -> Vec<&str> {
        self.open.iter().map(|element| &*element.name).collect()
    }

    fn text(&mut self, text: String, raw: &str) {
        let is_preformatted = self
            .open
            .last()
            .is_some_and(|element| element.is_preformatted);
        self.nodes.push(if self.is_translated() {
            Node::Text {
                text,
                is_preformatted,
            }
        } else {
            Node::Untranslated(kept(raw))
        });
    }

    fn start(&mut self, tag: &Tag) {
        if !self.is_foreign() {
            let left = open_after_start(&tag.name, &self.names());
            self.open.truncate(left);
        }
        let told = told_translation(tag);
        let has_read_attributes = told.unwrap_or_else(|| self.is_translated());
        let own = own_translation(&tag.name, told);
        let is_translated = own.unwrap_or_else(|| self.is_translated());
        let markup = if has_read_attributes && self.sentences.attributes {
            attribute::translated(tag, self.sentences)
        } else {
            kept(tag.raw)
        };
        let is_foreign = self.is_foreign() || is_foreign(&tag.name);
        let is_empty = if is_foreign {
            tag.is_self_closing
        } else {
            is_void(&tag.name)
        };
        let is_inline = is_foreign || is_inline(&tag.name);
        if is_empty && is_inline {
            self.nodes.push(Node::Point(markup));
            return;
        }
        if !is_empty && self.open.len() < DEEPEST {
            let around = self.open.last();
            self.open.push(Element {
                name: tag.name.clone(),
                node: self.nodes.len(),
                own,
                is_translated,
                is_preformatted: is_preformatted(&tag.name)
                    || around.is_some_and(|around| around.is_preformatted),
                is_foreign,
                is_crossed: false,
            });
        }
        self.nodes.push(Node::Tag {
            markup,
            is_inline,
            partner: None,
        });
    }

    fn end(&mut self, name: &str, raw: &str) {
        let is_inline = self.is_foreign() || is_inline(name);
        let tag = |partner| Node::Tag {
            markup: kept(raw),
            is_inline,
            partner,
        };
        // What comes after the end of `body` or `html` still belongs to it.
        let ended = ended_by(name, &self.names()).filter(|_| !matches!(name, "body" | "html"));
        let Some(index) = ended else {
            self.nodes.push(tag(None));
            return;
        };
        let holds_block = self.open[index + 1..]
            .iter()
            .any(|inner| !element_is_inline(inner));
        if is_formatting(name) && holds_block {
            self.end_around(index);
            self.nodes.push(tag(None));
            return;
        }
        let element = self.open.swap_remove(index);
        self.open.truncate(index);
        if element.is_crossed {
            self.nodes.push(tag(None));
            return;
        }
        let end = self.nodes.len();
        if let Node::Tag { partner, .. } = &mut self.nodes[element.node] {
            *partner = Some(end);
        }
        self.nodes.push(tag(Some(element.node)));
        if is_inline && element.own == Some(false) && self.is_translated() {
            self.join_untranslated(element.node);
        }
    }

    /// Ends an element around blocks that stay open.
    fn end_around(&mut self, index: usize) {
        self.open.remove(index);
        let mut is_translated = index
            .checked_sub(1)
            .is_none_or(|around| self.open[around].is_translated);
        for inner in &mut self.open[index..] {
            is_translated = inner.own.unwrap_or(is_translated);
            inner.is_translated = is_translated;
            inner.is_crossed = true;
        }
    }

    /// Makes one point of an inline element that is not translated, unless something in it is a
    /// block or is translated.
    fn join_untranslated(&mut self, start: usize) {
        let is_inside = |node: &Node| match node {
            Node::Tag { is_inline, .. } => *is_inline,
            Node::Point(_) | Node::Untranslated(_) => true,
            Node::Text { .. } | Node::Break(_) => false,
        };
        if !self.nodes[start..].iter().all(is_inside) {
            return;
        }
        let mut all = Vec::new();
        for node in self.nodes.drain(start..) {
            append(&mut all, node.into_markup());
        }
        self.nodes.push(Node::Point(all));
    }
}

fn element_is_inline(element: &Element) -> bool {
    element.is_foreign || is_inline(&element.name)
}

impl Node {
    /// What it is written as; a text is none.
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

fn kept(raw: &str) -> Vec<Piece> {
    vec![Piece::Kept(raw.to_owned())]
}

/// What a tag says of the translation of its content and its attributes, by the attribute
/// `translate` or the class `notranslate`.
fn told_translation(tag: &Tag) -> Option<bool> {
    match tag
        .attribute("translate")
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("" | "yes") => return Some(true),
        Some("no") => return Some(false),
        _ => {}
    }
    let classes = tag.attribute("class").unwrap_or_default();
    let is_excluded = classes
        .split_ascii_whitespace()
        .any(|class| class == "notranslate");
    is_excluded.then_some(false)
}

/// Whether the content of an element is translated, by what its tag says or by what it is; `None`
/// if it is as around it.
fn own_translation(name: &str, told: Option<bool>) -> Option<bool> {
    if is_opaque(name) {
        return Some(false);
    }
    told.or_else(|| is_untranslated(name).then_some(false))
}
