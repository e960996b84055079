//! The sentences of HTML pages, and pages from their translations. This module knows neither HTTP
//! nor a model.
//!
//! [`Page::read`] splits a page by a browser's rules: which text is shown together, which white
//! space is shown, which elements end without an end tag, and what is not to be translated.
//! [`Page::sentences`] are plain text, without the tags inside them. [`Page::with`] takes their
//! translations, with links between the words if they are known, and returns the page with every
//! tag of the original exactly once and the same nesting of elements.

mod attribute;
mod block;
mod element;
mod markup;
mod node;
mod piece;
mod placement;
mod sentence;
#[cfg(test)]
mod tests;
mod tree;
mod units;

use std::ops::Range;

use polyglow_predict::sentences::gap;

use block::Block;
use node::{Node, Partner};
use piece::{Piece, append, escape_text, escape_value};
use placement::MarkPosition;
use sentence::{Mark, MarkKind, Sentence, Sentences, Space};

/// A page, split into sentences and everything else.
#[derive(Clone, Debug)]
pub struct Page {
    num_bytes: usize,
    pieces: Vec<Piece>,
    sentences: Vec<Sentence>,
}

/// The options by which a page is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The code of the page's language, such as `de`; empty if it is unknown.
    pub language: &'a str,
    /// Whether the values of `alt`, `aria-label`, `placeholder` and `title` are translated.
    pub attributes: bool,
}

/// The translation of a sentence.
#[derive(Clone, Debug, Default)]
pub struct Translation {
    /// The text, without markup.
    pub text: String,
    /// The parts of the sentence that its parts are translated from; empty if they are unknown:
    /// then tags are placed by relative position.
    pub links: Vec<Link>,
}

/// A part of a translation and the part of the sentence that it is translated from, usually a word
/// each. Parts of a translation are equal or do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The bytes of the sentence.
    pub source: Range<usize>,
    /// The bytes of the translation.
    pub target: Range<usize>,
}

/// Converts links between words, `(source, target)`, to links in bytes. Words are divided by white
/// space and counted from 0; links to words that do not exist are left out.
pub fn word_links(source: &str, target: &str, links: &[(usize, usize)]) -> Vec<Link> {
    let sources = units::words(source);
    let targets = units::words(target);
    let mut in_bytes = Vec::with_capacity(links.len());
    for (from, to) in links {
        if let (Some(source), Some(target)) = (sources.get(*from), targets.get(*to)) {
            in_bytes.push(Link {
                source: source.clone(),
                target: target.clone(),
            });
        }
    }
    in_bytes
}

impl Page {
    /// Reads a page. Any text can be read; the character NUL, which is an error in HTML, is left
    /// out.
    ///
    /// ```
    /// use polyglow_serve::html::{Options, Page, Translation};
    ///
    /// let options = Options { language: "en", attributes: true };
    /// let page = Page::read("<p title='A dog'>The dog\n  sleeps.</p>", options);
    /// assert_eq!(page.sentences().collect::<Vec<_>>(), ["A dog", "The dog sleeps."]);
    /// let translations = ["Ein Hund", "Der Hund schläft."];
    /// let translations = translations.map(|text| Translation { text: text.to_owned(), links: Vec::new() });
    /// assert_eq!(page.with(&translations), "<p title=\"Ein Hund\">Der Hund schläft.</p>");
    /// ```
    pub fn read(page: &str, options: Options) -> Self {
        let page = page.replace('\0', "");
        let mut sentences = Sentences::new(options.language, options.attributes);
        let nodes = tree::nodes(&page, &mut sentences, &mut |_| {});
        let mut pieces = Vec::new();
        let mut block = Block::default();
        for (node, is_break) in with_breaks(nodes) {
            if is_break {
                std::mem::take(&mut block).write(&mut pieces, &mut sentences);
                append(&mut pieces, node.into_markup());
                continue;
            }
            match node {
                Node::Text {
                    text,
                    is_preformatted,
                } => block.push_text(&text, is_preformatted),
                Node::Tag {
                    markup,
                    is_start: true,
                    ..
                } => block.push_mark(MarkKind::Open, markup),
                Node::Tag { markup, .. } => block.push_mark(MarkKind::Close, markup),
                Node::Point(markup) | Node::Untranslated(markup) | Node::Break(markup) => {
                    block.push_mark(MarkKind::Point(Space::default()), markup);
                }
            }
        }
        block.write(&mut pieces, &mut sentences);
        Self {
            num_bytes: page.len(),
            pieces,
            sentences: sentences.into_list(),
        }
    }

    /// Returns the length of the page that was read, in bytes.
    pub fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Returns the sentences to translate, in the order in which [`Self::with`] takes their
    /// translations.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        self.sentences.iter().map(|sentence| &*sentence.text)
    }

    /// Returns whether there is markup inside sentences, so that links between words have an
    /// effect.
    pub fn needs_links(&self) -> bool {
        let mut marks = self.sentences.iter().flat_map(|sentence| &sentence.marks);
        marks.any(|mark| mark.kind != MarkKind::Blank)
    }

    /// Returns the page with translations in place of its sentences. Missing ones are empty.
    pub fn with(&self, translations: &[Translation]) -> String {
        let mut page = String::new();
        self.write(&self.pieces, translations, &mut page);
        page
    }

    /// Appends pieces to a page. Markup inside a sentence has pieces of its own: a tag may have
    /// translated attributes.
    fn write(&self, pieces: &[Piece], translations: &[Translation], page: &mut String) {
        let empty = Translation::default();
        for piece in pieces {
            match piece {
                Piece::Kept(markup) => page.push_str(markup),
                Piece::Value(index) => escape_value(text(translations, *index), page),
                Piece::Sentence(index) => {
                    let translation = translations.get(*index).unwrap_or(&empty);
                    self.write_sentence(&self.sentences[*index], translation, translations, page);
                }
                Piece::Gap(before) => {
                    let next = text(translations, before.end);
                    page.push_str(gap(last_text(translations, before, next), next));
                }
            }
        }
    }

    /// Appends a translation with the marks of its sentence.
    ///
    /// If a mark comes to stand beside other words than in the sentence, spaces of the sentence
    /// are missing: `a <img> b` has them around the image, and the translation has none there.
    fn write_sentence(
        &self,
        sentence: &Sentence,
        translation: &Translation,
        translations: &[Translation],
        page: &mut String,
    ) {
        let text = &*translation.text;
        let start = page.len();
        let mut written = 0;
        let mut needs_space = false;
        // Whether the last mark touches no word after it in the sentence, so that it is to touch
        // none in the translation.
        let mut touches_no_word = false;
        for MarkPosition { at, mark } in placement::positions(sentence, translation) {
            // Marks keep their order, so one may have to stand later than its own position.
            let at = at.max(written);
            let mark = &sentence.marks[mark];
            if at > written {
                let next = &text[written..];
                if needs_space || touches_no_word && begins_with_spaced_word(next) {
                    push_space_between(page, next);
                }
                needs_space = false;
                touches_no_word = false;
                escape_text(&text[written..at], page);
                written = at;
            }
            let MarkKind::Point(space) = mark.kind else {
                if needs_space && mark.kind != MarkKind::Close {
                    push_space_between(page, "");
                    needs_space = false;
                }
                self.write(&mark.markup, translations, page);
                continue;
            };
            let is_first = page.len() == start;
            let touches_word = ends_with_spaced_word(&text[..at]);
            let is_apart = space.before || touches_word && !follows_word(sentence, mark);
            if is_apart && !is_first || needs_space {
                push_space_between(page, "");
                needs_space = false;
            }
            self.write(&mark.markup, translations, page);
            needs_space |= space.after;
            touches_no_word = !precedes_word(sentence, mark);
        }
        if written < text.len() {
            let next = &text[written..];
            if needs_space || touches_no_word && begins_with_spaced_word(next) {
                push_space_between(page, next);
            }
        }
        escape_text(&text[written..], page);
    }
}

/// Returns the text of a translation; empty if it is missing.
fn text(translations: &[Translation], index: usize) -> &str {
    translations
        .get(index)
        .map_or("", |translation| &translation.text)
}

/// Returns the text that a gap follows: of the translations in `range` the last that is not empty,
/// so that an empty translation makes neither two gaps nor none. Before an empty `next` there is no
/// gap, whatever the last is.
fn last_text<'t>(translations: &'t [Translation], range: &Range<usize>, next: &str) -> &'t str {
    for index in range.clone().rev() {
        let text = text(translations, index);
        if next.is_empty() || !text.is_empty() {
            return text;
        }
    }
    ""
}

/// Returns whether a word of the sentence ends where a mark stands, so that both may touch in a
/// translation, too.
fn follows_word(sentence: &Sentence, mark: &Mark) -> bool {
    sentence.text[..mark.at].ends_with(char::is_alphanumeric)
}

/// Returns whether a word of the sentence begins where a mark stands.
fn precedes_word(sentence: &Sentence, mark: &Mark) -> bool {
    sentence.text[mark.at..].starts_with(char::is_alphanumeric)
}

/// Returns whether a text begins with a word of a script that has spaces between words.
fn begins_with_spaced_word(text: &str) -> bool {
    text.starts_with(char::is_alphanumeric) && !gap("a", text).is_empty()
}

/// Returns whether a text ends with a word of a script that has spaces between words.
fn ends_with_spaced_word(text: &str) -> bool {
    text.ends_with(char::is_alphanumeric) && !gap(text, "a").is_empty()
}

/// Returns the start tags and end tags of a page as they are written, in order, whether or not they
/// belong together.
pub fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    tree::nodes(page, &mut Sentences::new("", false), &mut |tag| {
        tags.push(tag);
    });
    tags
}

/// Appends a space, unless the page ends with one or `next` begins with one.
fn push_space_between(page: &mut String, next: &str) {
    if !page.ends_with(char::is_whitespace) && !next.starts_with(char::is_whitespace) {
        page.push(' ');
    }
}

/// Returns whether a node ends a sentence by itself.
fn is_break(node: &Node) -> bool {
    match node {
        Node::Text { .. } | Node::Point(_) => false,
        Node::Tag {
            is_inline, partner, ..
        } => !is_inline || *partner == Partner::Missing,
        Node::Untranslated(_) | Node::Break(_) => true,
    }
}

/// Returns nodes, each with whether it ends a sentence. Blocks do, tags without their partner, and
/// both tags of inline elements that contain such a node: they cannot be inside one sentence.
fn with_breaks(nodes: Vec<Node>) -> Vec<(Node, bool)> {
    // Counts of breaks before each node. Those of two tags differ if a break is between them, so
    // that each element takes constant time.
    let mut before = Vec::with_capacity(nodes.len());
    let mut count = 0_usize;
    for node in &nodes {
        before.push(count);
        count += usize::from(is_break(node));
    }
    let mut with_breaks = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.into_iter().enumerate() {
        let holds_break = match &node {
            Node::Tag {
                partner: Partner::Node(partner),
                ..
            } => before[*partner] != before[index],
            _ => false,
        };
        let ends_sentence = is_break(&node) || holds_break;
        with_breaks.push((node, ends_sentence));
    }
    with_breaks
}
