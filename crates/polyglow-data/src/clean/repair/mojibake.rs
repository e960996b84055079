//! UTF-8 that was read as Latin-1 or Windows-1252.

use std::borrow::Cow;

use crate::clean::findings::byte_1252;
use crate::clean::language::Script;
use crate::clean::profile::SideProfile;

/// The number of times that a text is decoded at most; text that was spoiled more often is rare.
const MAX_PASSES: usize = 3;

/// Returns a text with what can be decoded; borrowed if there is nothing.
pub(super) fn decoded<'t>(text: &'t str, side: &SideProfile) -> Cow<'t, str> {
    let mut decoded = Cow::Borrowed(text);
    for _ in 0..MAX_PASSES {
        match decode_once(&decoded, side) {
            Some(next) => decoded = Cow::Owned(next),
            None => break,
        }
    }
    decoded
}

/// Decodes each run of characters that are bytes above ASCII by itself, so that a letter elsewhere
/// in the text that is right does not prevent it. `None` if there is no such run.
fn decode_once(text: &str, side: &SideProfile) -> Option<String> {
    let mut output = String::new();
    let mut has_changed = false;
    let mut rest = text;
    while let Some(start) = rest.find(|next| byte_1252(next).is_some()) {
        output.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest
            .find(|next| byte_1252(next).is_none())
            .unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        let bytes: Vec<u8> = run.chars().filter_map(byte_1252).collect();
        match String::from_utf8(bytes) {
            Ok(decoded) if decoded.chars().all(|next| is_usual(next, side)) => {
                output.push_str(&decoded);
                has_changed = true;
            }
            _ => output.push_str(run),
        }
        rest = behind;
    }
    output.push_str(rest);
    has_changed.then_some(output)
}

/// Returns whether a decoded character may stand on a side: a letter of a script of its own, or a
/// sign. `ë…”` are the bytes of a Hangul syllable, and mean what they say.
fn is_usual(character: char, side: &SideProfile) -> bool {
    match Script::of(character) {
        Some(script) => side.has(script),
        None => !character.is_alphabetic(),
    }
}
