//! Lines in Windows-1252 between lines of UTF-8, and lines of UTF-8 that lack bytes.

use std::borrow::Cow;

use crate::clean::findings::character_1252;
use crate::clean::profile::SideProfile;
use crate::raw_bytes::{raw_byte, without_raw_bytes};

/// Returns a text that has no bytes in place of characters, and whether these could be read: as
/// Windows-1252, if all of it is in that encoding, in letters that the side has, and in signs beside
/// letters that it has (the byte of `¾` is `ž` in ISO-8859-2). Otherwise they are replaced by U+FFFD.
pub(in crate::clean) fn decoded<'t>(text: &'t str, side: &SideProfile) -> (Cow<'t, str>, bool) {
    if !text.chars().any(|character| raw_byte(character).is_some()) {
        return (Cow::Borrowed(text), false);
    }
    match read(text, side) {
        Some(read) => (Cow::Owned(read), true),
        None => (without_raw_bytes(text), false),
    }
}

/// Reads a text as Windows-1252; `None` if it is rather UTF-8 that lacks bytes.
fn read(text: &str, side: &SideProfile) -> Option<String> {
    let mut read = String::with_capacity(text.len());
    // Bytes above ASCII that stand right before a character.
    let mut run: Vec<u8> = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(byte) = raw_byte(character) else {
            if !character.is_ascii() {
                return None;
            }
            read.push(character);
            run.clear();
            continue;
        };
        run.push(byte);
        let decoded = character_1252(byte)?;
        let is_behind_letter = read.ends_with(char::is_alphabetic);
        let is_before_letter = characters.peek().is_some_and(|next| {
            // Any byte may be a letter in another encoding, unless it is a mark here.
            next.is_alphabetic() || raw_byte(*next).is_some_and(|byte| !is_mark(byte))
        });
        let is_known_place = match (is_behind_letter, is_before_letter) {
            (false, false) => !decoded.is_alphabetic(),
            (true, true) => is_mark_in_words(byte),
            _ => is_mark(byte),
        };
        // The first byte of a character in UTF-8 is a capital letter in Windows-1252.
        let is_in_word = decoded.is_uppercase() && read.ends_with(char::is_lowercase);
        if !(is_known_place || side.may_have(decoded)) || is_in_word || begins_in_utf8(&run) {
            return None;
        }
        read.push(decoded);
    }
    Some(read)
}

/// Whether a byte is a mark in Windows-1252 that stands beside letters in ordinary text: quotation marks,
/// dashes, three points, the euro, a trade mark, the no-break space. In encodings of ISO most of these are
/// control characters.
fn is_mark(byte: u8) -> bool {
    matches!(
        byte,
        0x80 | 0x82 | 0x84 | 0x85 | 0x8b | 0x91..=0x97 | 0x99 | 0x9b | 0xa0
    )
}

/// Whether a byte is a mark in Windows-1252 that stands between letters: an apostrophe, a dash, three
/// points, the no-break space.
fn is_mark_in_words(byte: u8) -> bool {
    matches!(byte, 0x85 | 0x92 | 0x96 | 0x97 | 0xa0)
}

/// Whether a run of bytes ends in the beginning of a character in UTF-8 of three bytes or more: such bytes
/// are letters and signs in Windows-1252 that hardly ever stand together.
fn begins_in_utf8(run: &[u8]) -> bool {
    matches!(
        run,
        [.., 0xe0..=0xf4, 0x80..=0x9f] | [.., 0xe0..=0xf4, 0x80..=0xbf, 0x80..=0xbf]
    )
}
