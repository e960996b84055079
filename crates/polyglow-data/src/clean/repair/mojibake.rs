//! UTF-8 that was read as Latin-1 or Windows-1252.

use std::borrow::Cow;

use super::is_usual;
use crate::clean::findings::byte_1252;
use crate::clean::profile::SideProfile;

/// The number of times that a text is decoded at most; text that was spoiled more often is rare.
const MAX_PASSES: usize = 3;

/// Returns a text with what can be decoded; borrowed if there is nothing.
pub(super) fn decoded<'t>(text: &'t str, side: &SideProfile) -> Cow<'t, str> {
    decode_runs(text, side, MAX_PASSES).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Decodes each run of characters that are bytes above ASCII by itself, so that a letter elsewhere
/// in the text that is right does not prevent it. `None` if there is no such run.
fn decode_runs(text: &str, side: &SideProfile, passes: usize) -> Option<String> {
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
        match decode(run, side, passes) {
            Some(decoded) => {
                output.push_str(&decoded);
                has_changed = true;
            }
            None => output.push_str(run),
        }
        rest = behind;
    }
    output.push_str(rest);
    has_changed.then_some(output)
}

/// Decodes a run as often as it can be; `None` if what comes out is not usual on its side. What comes
/// out in between need not be: letters of Latin-1 in Japanese, say.
fn decode(run: &str, side: &SideProfile, passes: usize) -> Option<String> {
    let passes = passes.checked_sub(1)?;
    let bytes: Vec<u8> = run.chars().filter_map(byte_1252).collect();
    let once = String::from_utf8(bytes).ok()?;
    let often = decode_runs(&once, side, passes).unwrap_or(once);
    let is_usual = often.chars().all(|next| is_usual(next, side));
    is_usual.then_some(often)
}
