//! The elements of a page: which are open where, what is translated, and which tags belong
//! together.

use super::attribute;
use super::element::{
    ended_by, is_foreign, is_formatting, is_inline, is_opaque, is_preformatted,
    is_scope_of_formatting, is_untranslated, is_void, open_after_start, takes_formatting,
};
use super::markup::{Tag, Token, Tokens};
use super::node::{Node, Partner, end_tag, is_untranslated_inline, kept};
use super::piece::append;
use super::sentence::Sentences;

/// The largest depth of elements; browsers have the same limit.
const MAX_DEPTH: usize = 512;
/// Formatting elements that are opened again in a block, at most; a page with more lacks their end
/// tags.
const MAX_SUSPENDED: usize = 32;

/// An open element.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of HTML that the others do not imply"
)]
struct Element {
    name: String,
    /// The index of the node of its start tag.
    node: usize,
    /// Whether its content is translated, if the element itself says so.
    own: Option<bool>,
    is_translated: bool,
    is_preformatted: bool,
    /// Whether it is in `svg` or `math`.
    is_foreign: bool,
    /// Whether an element around it ended before it.
    is_crossed: bool,
    /// Whether it began in an earlier block.
    is_resumed: bool,
}

/// Returns the nodes of a page. `on_tag` is called with each tag as it was written, in order.
pub(super) fn nodes<'p>(
    page: &'p str,
    sentences: &mut Sentences,
    on_tag: &mut dyn FnMut(&'p str),
) -> Vec<Node> {
    let mut tree = Tree {
        nodes: Vec::new(),
        open: Vec::new(),
        suspended: Vec::new(),
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

/// The state of reading a page.
struct Tree<'s> {
    nodes: Vec<Node>,
    /// The open elements, from the outermost.
    open: Vec<Element>,
    /// Formatting elements that the end of a block ended before their end tags, from the outermost:
    /// those in HTML's list of active formatting elements that are not open.
    suspended: Vec<Element>,
    sentences: &'s mut Sentences,
}

impl Tree<'_> {
    /// Returns whether text is translated here: outside of all elements it is.
    fn is_translated(&self) -> bool {
        self.open.last().is_none_or(|element| element.is_translated)
    }

    /// Returns whether the innermost open element is in `svg` or `math`.
    fn is_foreign(&self) -> bool {
        self.open.last().is_some_and(|element| element.is_foreign)
    }

    /// Returns the names of the open elements, from the outermost.
    fn names(&self) -> Vec<&str> {
        self.open.iter().map(|element| &*element.name).collect()
    }

    /// Adds text, which `raw` is in the page.
    fn text(&mut self, text: String, raw: &str) {
        // White space alone opens no formatting element again: it is usually that between blocks.
        if !raw.trim_ascii().is_empty() {
            self.resume();
        }
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

    /// Adds a start tag, after ending the elements that it ends.
    fn start(&mut self, tag: &Tag) {
        // Inside `svg` and `math` the rules are those of XML: nothing ends without an end tag.
        if !self.is_foreign() {
            let num_open = open_after_start(&tag.name, &self.names());
            self.end_from(num_open);
        }
        if matches!(&*tag.name, "a" | "nobr") {
            // A second one ends the first, which is then not opened again.
            self.suspended.retain(|element| element.name != tag.name);
        }
        let is_foreign = self.is_foreign() || is_foreign(&tag.name);
        let is_inline = is_foreign || is_inline(&tag.name);
        if is_inline {
            self.resume();
        }
        let declared = declared_translation(tag);
        let has_read_attributes = declared.unwrap_or_else(|| self.is_translated());
        // The content of `code` is not translated, but its attributes are those of the page around.
        let own = own_translation(&tag.name, declared);
        let is_translated = own.unwrap_or_else(|| self.is_translated());
        let markup = if has_read_attributes && self.sentences.attributes {
            attribute::translated(tag, self.sentences)
        } else {
            kept(tag.raw)
        };
        let is_empty = if is_foreign {
            tag.is_self_closing
        } else {
            is_void(&tag.name)
        };
        // An image or a `wbr` stands inside the sentence; a `br` or an `hr` ends it.
        if is_empty && is_inline {
            self.nodes.push(Node::Point(markup));
            return;
        }
        if is_scope_of_formatting(&tag.name) {
            self.suspended.clear();
        }
        // Deeper elements are not opened, so that their tags have no partner and each ends a
        // sentence: the time of a tag grows with the number of open elements.
        if !is_empty && self.open.len() < MAX_DEPTH {
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
                is_resumed: false,
            });
        }
        self.nodes.push(Node::Tag {
            markup,
            is_start: true,
            is_inline,
            partner: Partner::Missing,
        });
    }

    /// Adds an end tag, after ending its element and those inside it.
    fn end(&mut self, name: &str, raw: &str) {
        let is_inline = self.is_foreign() || is_inline(name);
        // Content after the end tag of `body` or `html` still belongs to it.
        let ended = ended_by(name, &self.names()).filter(|_| !matches!(name, "body" | "html"));
        let Some(index) = ended else {
            self.nodes.push(end_tag(raw, is_inline, Partner::Missing));
            return;
        };
        if is_formatting(name) && self.began_in_other_block(index) {
            let partner = self.end_in_other_block(index);
            self.nodes.push(end_tag(raw, is_inline, partner));
            return;
        }
        let Some(element) = self.end_from(index).filter(|element| !element.is_crossed) else {
            self.nodes.push(end_tag(raw, is_inline, Partner::Missing));
            return;
        };
        self.set_partner(element.node, Partner::Node(self.nodes.len()));
        let partner = Partner::Node(element.node);
        self.nodes.push(end_tag(raw, is_inline, partner));
        if is_inline && element.own == Some(false) && self.is_translated() {
            self.join_untranslated(element.node);
        }
    }

    /// Sets the partner of the tag at a node.
    fn set_partner(&mut self, node: usize, other: Partner) {
        if let Node::Tag { partner, .. } = &mut self.nodes[node] {
            *partner = other;
        }
    }

    /// Ends the open elements from an index on and returns the first of them. If that is a block,
    /// the formatting elements in it are suspended.
    fn end_from(&mut self, index: usize) -> Option<Element> {
        let mut ended = self.open.split_off(index).into_iter();
        let first = ended.next()?;
        if is_scope_of_formatting(&first.name) {
            self.suspended.clear();
            return Some(first);
        }
        for element in ended {
            if is_scope_of_formatting(&element.name) {
                self.suspended.clear();
                break;
            }
            if element.is_resumed || !element_is_inline(&first) && reopens_in_blocks(&element) {
                self.suspend(element);
            }
        }
        Some(first)
    }

    /// Keeps an element that [`Self::resume`] opens again.
    fn suspend(&mut self, element: Element) {
        self.set_partner(element.node, Partner::OtherBlock);
        if self.suspended.len() == MAX_SUSPENDED {
            self.suspended.remove(0);
        }
        self.suspended.push(element);
    }

    /// Opens suspended elements again, as browsers do before text and inline elements.
    fn resume(&mut self) {
        let takes_formatting = self
            .open
            .last()
            .is_none_or(|around| takes_formatting(&around.name) && !around.is_foreign);
        if self.suspended.is_empty() || !takes_formatting {
            return;
        }
        for mut element in std::mem::take(&mut self.suspended) {
            if self.open.len() < MAX_DEPTH {
                element.is_translated = element.own.unwrap_or_else(|| self.is_translated());
                element.is_preformatted = self
                    .open
                    .last()
                    .is_some_and(|around| around.is_preformatted);
                element.is_resumed = true;
                self.open.push(element);
            }
        }
    }

    /// Returns whether an open element began before the block that is open now.
    fn began_in_other_block(&self, index: usize) -> bool {
        self.open[index].is_resumed
            || self.open[index + 1..]
                .iter()
                .any(|inner| !element_is_inline(inner))
    }

    /// Ends a formatting element that began in another block, but not the elements inside it, and
    /// returns the partner of its end tag.
    fn end_in_other_block(&mut self, index: usize) -> Partner {
        let inner = &self.open[index + 1..];
        let block = inner.iter().rposition(|inner| !element_is_inline(inner));
        let in_block = &inner[block.map_or(0, |block| block + 1)..];
        // An element that begins in the same block and ends after the end tag would be neither
        // inside the formatting element nor outside.
        let is_crossing = in_block.iter().any(|inner| !inner.is_resumed);
        if is_crossing && block.is_none() {
            self.end_from(index);
            return Partner::Missing;
        }
        let element = self.open.remove(index);
        let around = index.checked_sub(1).map(|around| &self.open[around]);
        let mut is_translated = around.is_none_or(|around| around.is_translated);
        for inner in &mut self.open[index..] {
            is_translated = inner.own.unwrap_or(is_translated);
            inner.is_translated = is_translated;
            inner.is_crossed |= !inner.is_resumed;
        }
        if is_crossing || element.is_crossed {
            return Partner::Missing;
        }
        self.set_partner(element.node, Partner::OtherBlock);
        Partner::OtherBlock
    }

    /// Replaces an inline element that is not translated by one point, unless it contains a block
    /// or translated text.
    fn join_untranslated(&mut self, start: usize) {
        if !self.nodes[start..].iter().all(is_untranslated_inline) {
            return;
        }
        let mut all = Vec::new();
        for node in self.nodes.drain(start..) {
            append(&mut all, node.into_markup());
        }
        self.nodes.push(Node::Point(all));
    }
}

/// Returns whether an element whose block ends without its end tag is opened again in the next.
fn reopens_in_blocks(element: &Element) -> bool {
    is_formatting(&element.name) && !element.is_foreign && !element.is_crossed
}

/// Returns whether an open element is inline: in `svg` and `math` all are.
fn element_is_inline(element: &Element) -> bool {
    element.is_foreign || is_inline(&element.name)
}

/// Returns whether a tag declares its content and attributes to be translated, by the attribute
/// `translate` or the class `notranslate`; `None` if it has neither.
fn declared_translation(tag: &Tag) -> Option<bool> {
    let translate = tag.attribute("translate").map(str::to_ascii_lowercase);
    match translate.as_deref() {
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

/// Returns whether the content of an element is translated, as its tag declares or its name
/// implies; `None` if it is treated like the content around it.
fn own_translation(name: &str, declared: Option<bool>) -> Option<bool> {
    if is_opaque(name) {
        return Some(false);
    }
    declared.or_else(|| is_untranslated(name).then_some(false))
}
