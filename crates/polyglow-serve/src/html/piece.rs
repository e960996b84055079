//! The pieces that a page is written from.

use std::ops::Range;

/// A piece of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Markup and text that stay as they are.
    Kept(String),
    /// The translation of the sentence with this index, between tags.
    Sentence(usize),
    /// The translation of the sentence with this index, in the value of an attribute.
    Value(usize),
    /// A space, if the target language has one, between the translations of these sentences and
    /// that of the sentence with the index at their end. In the page nothing is between them.
    Gap(Range<usize>),
}

/// Appends markup that stays as it is.
pub(super) fn push_kept(pieces: &mut Vec<Piece>, markup: &str) {
    // Joined with the piece before: a page of many tags would have many tiny pieces.
    match pieces.last_mut() {
        _ if markup.is_empty() => {}
        Some(Piece::Kept(before)) => before.push_str(markup),
        _ => pieces.push(Piece::Kept(markup.to_owned())),
    }
}

/// Appends pieces.
pub(super) fn append(pieces: &mut Vec<Piece>, more: Vec<Piece>) {
    for piece in more {
        match piece {
            Piece::Kept(markup) => push_kept(pieces, &markup),
            other => pieces.push(other),
        }
    }
}

/// Appends a text as browsers write it between tags.
pub(super) fn escape_text(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\u{a0}' => out.push_str("&nbsp;"),
            other => out.push(other),
        }
    }
}

/// Appends a text as it is written in a value between double quotation marks.
pub(super) fn escape_value(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            other => escape_text(other.encode_utf8(&mut [0; 4]), out),
        }
    }
}
