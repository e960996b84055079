//! Symbols before and after a sentence, which models leave out or repeat: they stay as they are.

use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Punctuation that begins items of lists, also directly before a word.
const BULLETS: &str = "•‣⁃·";
/// Punctuation that does where it stands by itself; `#1`, `/path` and `…and` are words.
const MARKERS: &str = "*#_/\\|…";
/// What may end a sentence after a symbol.
const TERMINATORS: &str = ".!?…。！？";

/// The byte range of a sentence that is translated, without white space and symbols around it;
/// empty if it has no letter and no digit.
pub(super) fn translated(sentence: &str) -> Range<usize> {
    if !sentence.contains(char::is_alphanumeric) {
        return 0..0;
    }
    let start = leading(sentence);
    start..start + trailing(&sentence[start..])
}

/// The length of the symbols at the start of a text.
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

/// Whether a character at the start of a text stays, given the one after it.
fn leads(character: char, next: Option<char>) -> bool {
    let is_before = |test: fn(char) -> bool| next.is_some_and(test);
    match character.general_category() {
        _ if is_blank(character) => true,
        // A sign of a number, as in `-5` or `±3`.
        GeneralCategory::DashPunctuation | GeneralCategory::MathSymbol
            if is_before(char::is_numeric) =>
        {
            false
        }
        GeneralCategory::DashPunctuation => true,
        GeneralCategory::MathSymbol | GeneralCategory::ModifierSymbol if character.is_ascii() => {
            is_before(char::is_whitespace)
        }
        // `№ 5`, `°C`, `∆T` and `㈱トヨタ` begin words; an emoji begins none, wherever it stands.
        _ if is_pictorial(character) => {
            let begins_word = is_before(char::is_alphanumeric) || character == '№';
            is_emoji(character) || !begins_word
        }
        _ => {
            BULLETS.contains(character)
                || MARKERS.contains(character) && !is_before(char::is_alphanumeric)
        }
    }
}

/// The length of a text without the symbols at its end, and without a terminator after those.
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

/// White space, and characters without a look of their own: joiners, selectors of variants, marks
/// of byte order.
fn is_blank(character: char) -> bool {
    character.is_whitespace()
        || character.general_category() == GeneralCategory::Format
        || is_selector(character)
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}')
}

/// Emoji, arrows, check marks, and what modifies them.
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

/// Pictures of the planes and blocks that hold emoji.
fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
        && is_pictorial(character)
}
