//! What a page with gaps is made of.

use std::ops::Range;

/// A part of the output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Markup and text that stay to the letter.
    Kept(String),
    /// The translation of the sentence with this index, in text.
    Sentence(usize),
    /// The same, in the value of an attribute.
    Value(usize),
    /// A space, if one belongs between the translations of these sentences and that of the sentence
    /// with the index at their end: nothing stands between them in the page.
    Gap(Range<usize>),
}

/// Adds markup that stays to the letter.
pub(super) fn push_kept(pieces: &mut Vec<Piece>, markup: &str) {
    match pieces.last_mut() {
        _ if markup.is_empty() => {}
        Some(Piece::Kept(before)) => before.push_str(markup),
        _ => pieces.push(Piece::Kept(markup.to_owned())),
    }
}

/// Adds pieces after others.
pub(super) fn append(pieces: &mut Vec<Piece>, more: Vec<Piece>) {
    for piece in more {
        match piece {
            Piece::Kept(markup) => push_kept(pieces, &markup),
            other => pieces.push(other),
        }
    }
}

/// A text as it is written between tags, as browsers write it.
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

/// A text as it is written in a value between double quotation marks.
pub(super) fn escape_value(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            other => escape_text(other.encode_utf8(&mut [0; 4]), out),
        }
    }
}
