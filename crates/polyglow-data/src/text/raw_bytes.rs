//! Bytes that are no UTF-8, kept in a text as characters until something can be made of them.
//!
//! Byte 0x80 is U+10FF80 and so on, at the end of the last private plane of Unicode. Text that had such
//! characters of its own would be taken for bytes.

use std::borrow::Cow;

/// The character of byte 0, if that were one that UTF-8 does not allow.
const FIRST: u32 = 0x10_ff00;

/// Reads UTF-8, and keeps bytes that are none as characters of their own.
pub(crate) fn keep(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let kept = chunk.invalid().iter().map(|&byte| FIRST + u32::from(byte));
        text.extend(kept.filter_map(char::from_u32));
    }
    text
}

/// Returns the bytes of a text that has bytes which are no UTF-8, and ASCII besides; `None` of other texts,
/// also of those with characters of UTF-8, whose bytes are damage.
pub(crate) fn raw_bytes(text: &str) -> Option<Vec<u8>> {
    let byte = |character: char| match raw_byte(character) {
        None => u8::try_from(character).ok().filter(u8::is_ascii),
        raw => raw,
    };
    let bytes: Vec<u8> = text.chars().map(byte).collect::<Option<_>>()?;
    (!bytes.is_ascii()).then_some(bytes)
}

/// Returns the byte that a character stands for; `None` of other characters.
pub(crate) fn raw_byte(character: char) -> Option<u8> {
    let byte = u32::from(character).checked_sub(FIRST)?;
    u8::try_from(byte).ok().filter(|byte| !byte.is_ascii())
}

/// Returns a text in UTF-8, but for the bytes that characters of it stand for, which are returned as
/// they were read.
pub fn original_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_raw_bytes(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match raw_byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Returns a text with U+FFFD in place of bytes that are no UTF-8.
pub fn without_raw_bytes(text: &str) -> Cow<'_, str> {
    if !has_raw_bytes(text) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|character| match raw_byte(character) {
        Some(_) => char::REPLACEMENT_CHARACTER,
        None => character,
    });
    Cow::Owned(shown.collect())
}

/// Returns whether a text has bytes that are no UTF-8.
fn has_raw_bytes(text: &str) -> bool {
    text.chars().any(|character| raw_byte(character).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_where_they_stand_and_shown_as_lost() {
        let text = keep(b"caf\xe9 \xc3\xa9\x80\xff.");
        let bytes: Vec<u8> = text.chars().filter_map(raw_byte).collect();
        assert_eq!(bytes, [0xe9, 0x80, 0xff]);
        assert_eq!(without_raw_bytes(&text), "caf\u{fffd} é\u{fffd}\u{fffd}.");
        assert_eq!(&*original_bytes(&text), b"caf\xe9 \xc3\xa9\x80\xff.");
        assert!(matches!(original_bytes("Größe"), Cow::Borrowed(_)));
        assert_eq!(keep("Größe 😀".as_bytes()), "Größe 😀");
        assert!(matches!(without_raw_bytes("Größe"), Cow::Borrowed(_)));
        assert_eq!(raw_byte('\u{10ff7f}'), None);
        assert_eq!(
            raw_bytes(&keep(b"caf\xe9")).as_deref(),
            Some(&b"caf\xe9"[..])
        );
        assert!(raw_bytes(&text).is_none() && raw_bytes("cafe").is_none());
    }
}
