//! Tests of sides, character by character.

use crate::clean::profile::SideProfile;

/// The signs of questions of many scripts; the Greek one looks like a semicolon, and is often one.
const QUESTION_MARKS: [char; 8] = ['?', '\u{ff1f}', '؟', ';', '\u{37e}', '՞', '፧', '⁇'];
/// Tokens of a side that are looked at for blanks between all characters.
const FEW_TOKENS: usize = 6;

/// Returns where an address begins and ends; `None` if a text has none.
fn url(text: &str) -> Option<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let start = ["http://", "https://", "www."]
        .iter()
        .filter_map(|prefix| lower.find(prefix))
        .min()?;
    let len = text[start..]
        .find(char::is_whitespace)
        .unwrap_or(text.len() - start);
    Some((start, start + len))
}

/// Returns whether a text has an address of the web.
pub(super) fn has_url(text: &str) -> bool {
    url(text).is_some()
}

/// Returns the parts of a text between addresses of the web.
fn outside_urls(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut parts = Vec::new();
    while let Some((start, end)) = url(rest) {
        parts.push(&rest[..start]);
        rest = &rest[end..];
    }
    parts.push(rest);
    parts
}

/// Counts letters and digits, and all characters but blanks, outside of addresses.
pub(super) fn count_letters(text: &str) -> (usize, usize) {
    let mut counts = (0, 0);
    for part in outside_urls(text) {
        add_letters(part, &mut counts);
    }
    counts
}

fn add_letters(text: &str, (letters, characters): &mut (usize, usize)) {
    for character in text.chars().filter(|next| !next.is_whitespace()) {
        *characters += 1;
        *letters += usize::from(character.is_alphanumeric() || is_mark(character));
    }
}

/// Returns whether a character belongs to the letter before it, as the signs for vowels and their
/// absence in Indic scripts, which are not all alphabetic to Unicode.
fn is_mark(character: char) -> bool {
    unicode_normalization::char::is_combining_mark(character)
}

/// Returns whether a text has U+FFFD, or question marks in place of letters: between two letters,
/// or at the beginning of a word. Addresses have question marks of their own. Where a translation
/// asks, too, the blank behind a question may be missing (`What?No way!`).
pub(super) fn has_lost_characters(text: &str, translation: &str) -> bool {
    if text.contains('\u{fffd}') {
        return true;
    }
    if !text.contains('?') {
        return false;
    }
    let is_asked = translation.contains(QUESTION_MARKS);
    outside_urls(text).into_iter().any(|part| {
        let mut marks = part.match_indices('?');
        marks.any(|(start, mark)| {
            let before = part[..start].chars().next_back();
            is_lost_letter(before, &part[start + mark.len()..], is_asked)
        })
    })
}

/// Returns whether a question mark stands in place of a letter, between the character before it and
/// the text behind it; `is_asked` says whether the translation asks something.
fn is_lost_letter(before: Option<char>, behind: &str, is_asked: bool) -> bool {
    let is_single = !behind.starts_with('?');
    let next = behind.chars().find(|next| *next != '?');
    let Some(next) = next.filter(|next| next.is_alphabetic()) else {
        return false;
    };
    match before {
        None | Some(' ') => true,
        Some(before) => {
            let begins_sentence = is_asked && before.is_lowercase() && next.is_uppercase();
            before.is_alphabetic() && is_single && !begins_sentence && !is_query(behind)
        }
    }
}

/// Returns whether a question mark before this text begins the query of an address
/// (`index.php?page=3`).
fn is_query(behind: &str) -> bool {
    let name = behind.trim_start_matches(|next: char| next.is_ascii_alphanumeric() || next == '_');
    name.len() < behind.len() && name.starts_with('=')
}

/// Returns whether a text has a question mark in place of a letter, where its translation asks
/// nothing: within a sentence, before a lowercase letter (`ein Caf? am Markt`, `assis ? une
/// table`), or before its end (`ein Caf?.`). What loses one letter beyond ASCII loses all of them.
/// Text without any uppercase letter may begin a sentence with a lowercase one, and in Spanish a
/// sentence that asks may go on.
pub(super) fn has_question_mark_within(text: &str, translation: &str) -> bool {
    let is_other_letter = |character: char| !character.is_ascii() && character.is_alphabetic();
    if !text.contains('?')
        || !text.contains(char::is_uppercase)
        || text.contains(is_other_letter)
        || text.contains('¿')
        || translation.contains(QUESTION_MARKS)
    {
        return false;
    }
    outside_urls(text).into_iter().any(|part| {
        let mut behind = part.match_indices('?').map(|(start, _)| &part[start + 1..]);
        behind.any(|behind| {
            let is_before_end = behind.starts_with(['.', ',']) && !behind.starts_with("..");
            let is_before_lowercase = behind
                .trim_start_matches([' ', '?'])
                .starts_with(char::is_lowercase);
            is_before_end || is_before_lowercase && !is_query(behind)
        })
    })
}

/// Returns whether a text has blanks between its characters, other than the text of its side.
pub(super) fn is_spaced_out(text: &str, profile: &SideProfile) -> bool {
    let tokens: Vec<&str> = text.split(' ').collect();
    let num_single = tokens
        .iter()
        .filter(|token| token.chars().count() == 1)
        .count();
    let is_in_pieces = tokens.len() >= FEW_TOKENS && 4 * num_single >= 3 * tokens.len();
    let num_blanks = tokens.len() - 1;
    let is_full_of_blanks =
        tokens.len() >= FEW_TOKENS - 1 && num_blanks as f64 > 0.35 * text.chars().count() as f64;
    profile.is_spaced() && is_in_pieces || profile.is_unspaced() && is_full_of_blanks
}
