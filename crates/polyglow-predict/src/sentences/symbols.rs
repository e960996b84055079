//! Symbols before and after a sentence. Models leave them out or repeat them, so they are not
//! translated, and stay as they are.

use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Punctuation that begins items of lists, with or without a space before the word.
const BULLETS: &str = "•‣⁃·";
/// Punctuation that begins items of lists if a space follows; `#1`, `/path` and `…and` are words.
const MARKERS: &str = "*#_/\\|…";
/// Punctuation that may end a sentence after a symbol.
const TERMINATORS: &str = ".!?…。！？";

/// Returns the byte range of a sentence that is translated, without white space and symbols around it;
/// it is empty if the sentence has no letter and no digit.
pub(super) fn translated(sentence: &str) -> Range<usize> {
    if !sentence.contains(char::is_alphanumeric) {
        return 0..0;
    }
    let start = leading(sentence);
    start..start + trailing(&sentence[start..])
}

/// Returns the length of the symbols at the start of a text.
fn leading(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    let mut start = 0;
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        if !leads(character, next) {
            break;
        }
        start = at + character.len_utf8();
    }
    start
}

/// Returns whether a character at the start of a text is a symbol that is not translated, given the one
/// after it.
fn leads(character: char, next: Option<char>) -> bool {
    let precedes_number = next.is_some_and(char::is_numeric);
    let precedes_word = next.is_some_and(char::is_alphanumeric);
    match character.general_category() {
        _ if is_blank(character) => true,
        // A sign of a number, as in `-5` or `±3`.
        GeneralCategory::DashPunctuation | GeneralCategory::MathSymbol if precedes_number => false,
        GeneralCategory::DashPunctuation => true,
        GeneralCategory::MathSymbol | GeneralCategory::ModifierSymbol if character.is_ascii() => {
            next.is_some_and(char::is_whitespace)
        }
        // `№ 5`, `°C`, `∆T` and `㈱トヨタ` begin words; an emoji begins none, wherever it stands.
        _ if is_pictorial(character) => {
            let begins_word = precedes_word || character == '№';
            is_emoji(character) || !begins_word
        }
        _ => BULLETS.contains(character) || MARKERS.contains(character) && !precedes_word,
    }
}

/// Returns the length of a text without the symbols at its end, and without a terminator after those.
fn trailing(text: &str) -> usize {
    let mut end = text.trim_end_matches(is_blank).len();
    let mut characters = text[..end].char_indices().rev().peekable();
    let mut symbols_from = None;
    while let Some((at, character)) = characters.next() {
        let before = characters.peek().map(|(_, before)| *before);
        // `20°`, `C♯` and `Windows™` are words; an emoji is none, wherever it stands.
        let is_word = before.is_some_and(char::is_alphanumeric) && !is_emoji(character);
        // A dash by itself, as in `He left. - `, is no part of the sentence.
        let is_dash = character.general_category() == GeneralCategory::DashPunctuation
            && before.is_some_and(char::is_whitespace);
        if is_pictorial(character) && !is_word || is_dash {
            symbols_from = Some(at);
        } else if !is_blank(character) && !TERMINATORS.contains(character) {
            break;
        }
    }
    if let Some(from) = symbols_from {
        end = text[..from].trim_end_matches(is_blank).len();
    }
    end
}

/// Returns whether a character is white space or invisible: a joiner, a variation selector, a byte
/// order mark.
fn is_blank(character: char) -> bool {
    character.is_whitespace()
        || character.general_category() == GeneralCategory::Format
        || is_selector(character)
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}')
}

/// Returns whether a character is an emoji, an arrow, a check mark, or a modifier of these.
fn is_pictorial(character: char) -> bool {
    let category = character.general_category();
    let is_symbol = matches!(
        category,
        GeneralCategory::OtherSymbol
            | GeneralCategory::MathSymbol
            | GeneralCategory::ModifierSymbol
    );
    is_symbol && !character.is_ascii()
}

/// Returns whether a character is a picture of the planes and blocks that hold emoji.
fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
        && is_pictorial(character)
}
