//! Text and pages as sentences, with all that is between them kept as it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use html_escape::{decode_html_entities, encode_text};
use lol_html::html_content::{ContentType, TextType};
use lol_html::{RewriteStrSettings, doc_text, element, end_tag, rewrite_str};
use polyglow_train::predict::sentences;

use crate::failure::Failure;

/// Elements whose text stays as it is.
const UNTRANSLATED: &str = r#"[translate="no"], .notranslate, code, script, style, textarea"#;
/// What stands for a text while a page is taken apart; no page has it, since no page may have this character.
const MARK: char = '\u{0}';

/// What a text is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Spaces, line breaks, tags.
    Kept(String),
    /// A sentence, which is to be translated.
    Sentence(String),
}

/// A text or a page in parts.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) parts: Vec<Part>,
    /// Whether it is a page, in which `<` is written `&lt;`.
    is_html: bool,
}

impl Document {
    /// Cuts a text into lines, and lines into sentences.
    pub(crate) fn of_text(text: &str) -> Self {
        let mut document = Self { parts: Vec::new(), is_html: false };
        document.push_text(text);
        document
    }

    /// A text that is not cut.
    pub(crate) fn of_sentence(text: &str) -> Self {
        Self { parts: vec![Part::Sentence(text.to_owned())], is_html: false }
    }

    /// Cuts the text of a page into sentences. Tags stay where they are, and a tag within a sentence ends it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of_html(page: &str) -> Result<Self, Failure> {
        let page = page.replace(MARK, "");
        // How many elements with text that stays are open.
        let kept = Rc::new(Cell::new(0_usize));
        let inside = Rc::clone(&kept);
        let open = element!(UNTRANSLATED, move |element| {
            if let Some(handlers) = element.end_tag_handlers() {
                inside.set(inside.get() + 1);
                let kept = Rc::clone(&inside);
                handlers.push(end_tag!(move |_| {
                    kept.set(kept.get() - 1);
                    Ok(())
                }));
            }
            Ok(())
        });
        // A text comes in pieces; the last in the list is the one that is being read.
        let texts = Rc::new(RefCell::new(vec![String::new()]));
        let found = Rc::clone(&texts);
        let take = doc_text!(move |chunk| {
            if kept.get() == 0 && chunk.text_type() == TextType::Data {
                let mut found = found.borrow_mut();
                found.last_mut().expect("one is being read").push_str(chunk.as_str());
                if chunk.last_in_text_node() {
                    found.push(String::new());
                    chunk.replace(&MARK.to_string(), ContentType::Html);
                } else {
                    chunk.remove();
                }
            }
            Ok(())
        });
        let settings =
            RewriteStrSettings::new().append_element_content_handler(open).append_document_content_handler(take);
        let frame = rewrite_str(&page, settings).map_err(|error| Failure::bad(format!("Invalid HTML: {error}")))?;
        let texts = texts.borrow();
        let mut document = Self { parts: Vec::new(), is_html: true };
        for (number, markup) in frame.split(MARK).enumerate() {
            if number > 0 {
                document.push_text(&decode_html_entities(&texts[number - 1]));
            }
            document.push_markup(markup);
        }
        Ok(document)
    }

    fn push_text(&mut self, text: &str) {
        for part in sentences::parts(text) {
            match part {
                sentences::Part::Kept(kept) => self.push_kept(kept),
                sentences::Part::Sentence(sentence) => self.parts.push(Part::Sentence(sentence.to_owned())),
            }
        }
    }

    /// Adds text that is not translated.
    fn push_kept(&mut self, text: &str) {
        if self.is_html { self.push_markup(&encode_text(text)) } else { self.push_markup(text) }
    }

    /// Adds what stays to the letter.
    fn push_markup(&mut self, markup: &str) {
        match self.parts.last_mut() {
            _ if markup.is_empty() => {}
            Some(Part::Kept(before)) => before.push_str(markup),
            _ => self.parts.push(Part::Kept(markup.to_owned())),
        }
    }

    /// The sentences, in order.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Sentence(sentence) => Some(&**sentence),
            Part::Kept(_) => None,
        })
    }

    /// The text with these in the places of its sentences, as many as there are.
    pub(crate) fn with<'a>(&self, translations: impl IntoIterator<Item = &'a str>) -> String {
        let mut translations = translations.into_iter();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Kept(kept) => text.push_str(kept),
                Part::Sentence(_) => {
                    let translation = translations.next().unwrap_or_default();
                    text.push_str(&if self.is_html { encode_text(translation) } else { translation.into() });
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(document: &Document) -> String {
        let translations: Vec<String> = document.sentences().map(str::to_uppercase).collect();
        document.with(translations.iter().map(String::as_str))
    }

    #[test]
    fn spaces_and_what_has_no_words_stay() {
        for (text, expected) in [
            ("", ""),
            (" \n\n ", " \n\n "),
            ("  one two.  Three!\n\nfour\r\n", "  ONE TWO.  THREE!\n\nFOUR\r\n"),
            ("--- 👍 …", "--- 👍 …"),
            ("a 👍", "A 👍"),
        ] {
            assert_eq!(translated(&Document::of_text(text)), expected);
        }
    }

    #[test]
    fn lines_are_cut_where_sentences_end() {
        for (text, expected) in [
            ("One. Two? Three", &["One.", "Two?", "Three"][..]),
            ("Mr. Smith met J. Doe. They left.", &["Mr. Smith met J. Doe.", "They left."]),
            ("Er kam um 3.15 Uhr.", &["Er kam um 3.15 Uhr."]),
            ("我来了。你呢？", &["我来了。", "你呢？"]),
            ("It was Mr.", &["It was Mr."]),
        ] {
            assert_eq!(Document::of_text(text).sentences().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn tags_stay_and_text_is_read_and_written_with_its_entities() {
        for (page, expected) in [
            ("a <b>c &amp; d</b><br>e", "A <b>C &amp; D</b><br>E"),
            ("<p title=\"stays\">1 &lt; 2 a</p>", "<p title=\"stays\">1 &lt; 2 A</p>"),
            ("<script>let a = 1;</script>a", "<script>let a = 1;</script>A"),
            ("<p translate=\"no\">a <i>b</i></p>c", "<p translate=\"no\">a <i>b</i></p>C"),
            ("<!-- a -->b\u{0}c", "<!-- a -->BC"),
            ("a < b", "A &lt; B"),
        ] {
            assert_eq!(translated(&Document::of_html(page).expect("it is HTML")), expected);
        }
    }
}
