//! Lines in Windows-1252 between lines of UTF-8, and lines of UTF-8 that lack bytes.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::clean::findings::character_1252;
use crate::clean::profile::SideProfile;
use crate::raw_bytes::{raw_byte, without_raw_bytes};

/// The bytes of Windows-1252 for quotation marks, dashes and other marks that stand beside letters, which
/// other encodings have at the same place or not at all.
const MARKS: RangeInclusive<u8> = 0x80..=0xa0;

/// Returns a text that has no bytes in place of characters, and whether these could be read: as
/// Windows-1252, if all of it is in that encoding, in letters that the side has, and in signs beside
/// letters that it has (`\u{be}` is a letter in ISO-8859-2). Otherwise they are replaced by U+FFFD.
pub(super) fn decoded<'t>(text: &'t str, side: &SideProfile) -> (Cow<'t, str>, bool) {
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
        let letter = character_1252(byte)?;
        let is_beside_letter = read.ends_with(char::is_alphabetic)
            || characters.peek().is_some_and(|next| {
                next.is_alphabetic() || raw_byte(*next).is_some_and(|byte| !MARKS.contains(&byte))
            });
        let is_free = !letter.is_alphabetic() && (MARKS.contains(&byte) || !is_beside_letter);
        let is_of_side = is_free || side.may_have(letter);
        // The first byte of a character in UTF-8 is a capital letter in Windows-1252.
        let is_in_word = letter.is_uppercase() && read.ends_with(char::is_lowercase);
        if !is_of_side || is_in_word || begins_in_utf8(&run) {
            return None;
        }
        read.push(letter);
    }
    Some(read)
}

/// Whether a run of bytes ends in the beginning of a character in UTF-8 of three bytes or more: such bytes
/// are letters and signs in Windows-1252 that hardly ever stand together.
fn begins_in_utf8(run: &[u8]) -> bool {
    matches!(
        run,
        [.., 0xe0..=0xf4, 0x80..=0x9f] | [.., 0xe0..=0xf4, 0x80..=0xbf, 0x80..=0xbf]
    )
}
