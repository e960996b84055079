//! The tags, texts and other tokens of a page, each with the bytes as which it was written.

use html5gum::{DefaultEmitter, Span, State, StringReader, Tokenizer};

/// A part of a page.
pub(super) enum Token<'s> {
    Start(Tag<'s>),
    End {
        name: String,
        raw: &'s str,
    },
    /// Text, with its entities decoded and as it was written.
    Text {
        text: String,
        raw: &'s str,
    },
    Comment(&'s str),
    /// A document type, or an unfinished tag at the end of the page.
    Other(&'s str),
}

/// A start tag.
pub(super) struct Tag<'s> {
    /// In lower case.
    pub(super) name: String,
    pub(super) raw: &'s str,
    pub(super) attributes: Vec<Attribute>,
    /// Whether it ends in `/>`.
    pub(super) is_self_closing: bool,
}

/// An attribute of a tag.
pub(super) struct Attribute {
    /// In lower case.
    pub(super) name: String,
    /// With its entities decoded.
    pub(super) value: String,
    /// The byte of the tag at which its name begins.
    pub(super) start: usize,
}

impl Tag<'_> {
    /// Returns the value of an attribute; `None` if the tag does not have it.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| &*attribute.value)
    }
}

/// The tokens of a page, in order. Joined, they are the page byte for byte.
pub(super) struct Tokens<'s> {
    source: &'s str,
    tokenizer: Tokenizer<StringReader<'s>, DefaultEmitter<usize>>,
    /// The position at which the last token ended.
    end: usize,
    /// A token that the library has returned already, and its end. The bytes that the library
    /// skipped before it come first.
    next: Option<(Token<'s>, usize)>,
    /// The token after a text, which is read to know whether the page ends there.
    read_ahead: Option<html5gum::Token<usize>>,
}

impl<'s> Tokens<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        let tokenizer = Tokenizer::new_with_emitter(source, DefaultEmitter::new_with_span());
        Self {
            source,
            tokenizer,
            end: 0,
            next: None,
            read_ahead: None,
        }
    }

    /// Sets how the content of an element is read: in some, only their own end tag is a tag. It is
    /// to be called after each start tag, but not inside `svg` and `math`.
    pub(super) fn enter(&mut self, name: &str) {
        let state = match name {
            "title" | "textarea" => State::RcData,
            "script" => State::ScriptData,
            "style" | "iframe" | "xmp" | "noembed" | "noframes" => State::RawText,
            "plaintext" => State::PlainText,
            _ => return,
        };
        self.tokenizer.set_state(state);
    }

    /// Returns the library's next token that is not an error.
    fn read_token(&mut self) -> Option<html5gum::Token<usize>> {
        if let Some(token) = self.read_ahead.take() {
            return Some(token);
        }
        for token in self.tokenizer.by_ref() {
            let token = match token {
                Ok(token) => token,
                Err(never) => match never {},
            };
            if !matches!(token, html5gum::Token::Error(_)) {
                return Some(token);
            }
        }
        None
    }

    /// Returns the bytes of a text. If a page ends in a reference such as `&amp;`, the library
    /// omits its last byte, although the text has the character.
    fn text_span(&mut self, span: Span<usize>) -> Span<usize> {
        self.read_ahead = self.read_token();
        let rest = self.source.get(span.end..).unwrap_or_default();
        if self.read_ahead.is_some() || rest.starts_with('<') {
            return span;
        }
        Span {
            end: self.source.len(),
            ..span
        }
    }

    /// Returns the token at `span`, or before it the bytes that the library skipped. `token` makes
    /// it from its bytes and their start.
    fn placed(
        &mut self,
        span: Span<usize>,
        token: impl FnOnce(&'s str, usize) -> Token<'s>,
    ) -> Token<'s> {
        // The library does not say where the text of a script begins, but it begins where the tag
        // before it ends.
        let start = span.start.max(self.end);
        let end = span.end.max(start);
        let skipped = &self.source[self.end..start];
        let token = token(&self.source[start..end], start);
        if skipped.is_empty() {
            self.end = end;
            return token;
        }
        // Two tokens at once; the second waits, since each call returns one.
        self.end = start;
        self.next = Some((token, end));
        Token::Other(skipped)
    }
}

impl<'s> Iterator for Tokens<'s> {
    type Item = Token<'s>;

    fn next(&mut self) -> Option<Token<'s>> {
        if let Some((token, end)) = self.next.take() {
            self.end = end;
            return Some(token);
        }
        if let Some(token) = self.read_token() {
            return Some(match token {
                html5gum::Token::StartTag(tag) => {
                    self.placed(tag.span, |raw, start| Token::Start(read(tag, raw, start)))
                }
                html5gum::Token::EndTag(tag) => self.placed(tag.span, |raw, _| Token::End {
                    name: lossy(&tag.name),
                    raw,
                }),
                html5gum::Token::String(text) => {
                    let span = self.text_span(text.span);
                    self.placed(span, |raw, _| Token::Text {
                        text: lossy(&text.value),
                        raw,
                    })
                }
                html5gum::Token::Comment(comment) => {
                    self.placed(comment.span, |raw, _| Token::Comment(raw))
                }
                html5gum::Token::Doctype(doctype) => {
                    self.placed(doctype.span, |raw, _| Token::Other(raw))
                }
                html5gum::Token::Error(_) => unreachable!("errors were left out"),
            });
        }
        // The library drops a tag that the page ends in; it stays in the page.
        let rest = &self.source[self.end..];
        self.end = self.source.len();
        (!rest.is_empty()).then_some(Token::Other(rest))
    }
}

/// Converts a start tag of the library, which begins at byte `start` of the page.
fn read(tag: html5gum::StartTag<usize>, raw: &str, start: usize) -> Tag<'_> {
    let mut attributes = Vec::with_capacity(tag.attributes.len());
    for (name, value) in tag.attributes {
        attributes.push(Attribute {
            name: lossy(&name),
            value: lossy(&value.value),
            start: value.span.start.saturating_sub(start),
        });
    }
    Tag {
        name: lossy(&tag.name),
        raw,
        attributes,
        is_self_closing: tag.self_closing,
    }
}

/// Converts text of the library, which is UTF-8 since the page is.
fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw<'s>(token: &Token<'s>) -> &'s str {
        match token {
            Token::Start(tag) => tag.raw,
            Token::End { raw, .. }
            | Token::Text { raw, .. }
            | Token::Comment(raw)
            | Token::Other(raw) => raw,
        }
    }

    #[test]
    fn a_reference_that_ends_the_page_is_in_the_text_as_a_whole() {
        for (page, expected) in [
            ("&amp;", "&"),
            ("a &nbsp;", "a \u{a0}"),
            ("a &nbsp", "a \u{a0}"),
            ("a &lt", "a <"),
            ("more&hellip;", "more…"),
            ("a &notit; &amp", "a ¬it; &"),
            ("a &unknown;", "a &unknown;"),
            ("a &", "a &"),
            ("é&#160;", "é\u{a0}"),
        ] {
            let read: Vec<Token> = Tokens::new(page).collect();
            let [Token::Text { text, raw }] = read.as_slice() else {
                panic!("{page}: {} tokens", read.len());
            };
            assert_eq!((text.as_str(), *raw), (expected, page));
        }
    }

    #[test]
    fn tokens_are_the_page() {
        for page in [
            "",
            "a &amp; b<p class=x>é</p ><!-- c --><![CDATA[ d ]]>\r\n<br/>",
            "<!DOCTYPE html><script>if (a < b) </script>x<p class='",
            "x &amp;<p class='",
            "<title>a &amp;</title><b>&amp",
        ] {
            let mut tokens = Tokens::new(page);
            let mut together = String::new();
            while let Some(token) = tokens.next() {
                together.push_str(raw(&token));
                if let Token::Start(tag) = &token {
                    tokens.enter(&tag.name);
                }
            }
            assert_eq!(together, page);
        }
    }
}
