//! Text as rules compare it: normal forms, words and numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use crate::script::is_unspaced;

/// Folds the case of a text: two texts that differ in case alone become equal, also where a letter
/// has two in the other case, such as `ß`.
pub fn fold(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// Returns the letters and digits of a text, without accents' encoding, widths and case: two texts
/// with the same normal form say the same.
pub fn normal_form(text: &str) -> String {
    let compatible: String = text.nfkc().collect();
    let mut form = fold(&compatible);
    form.retain(char::is_alphanumeric);
    form
}

/// Cuts a text into words for rules, in folded case: runs of digits, of letters, and of katakana,
/// and single characters of scripts without spaces. Everything else is left out.
pub fn words(text: &str) -> Vec<String> {
    let ranges = word_ranges(text).into_iter();
    ranges.map(|range| fold(&text[range])).collect()
}

/// Returns where the [`words`] of a text stand, in bytes.
pub fn word_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut before = None;
    for (start, character) in text.char_indices() {
        let kind = kind(character);
        let end = start + character.len_utf8();
        match (kind, ranges.last_mut()) {
            (None, _) => {}
            (Some(kind), Some(word)) if before == Some(kind) && kind != Kind::Alone => {
                word.end = end;
            }
            (Some(_), _) => ranges.push(start..end),
        }
        before = kind;
    }
    ranges
}

/// The kind of a word that a character belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digits,
    Letters,
    Katakana,
    /// A character that is a word.
    Alone,
}

fn kind(character: char) -> Option<Kind> {
    match character {
        '\u{30a0}'..='\u{30ff}' => Some(Kind::Katakana),
        _ if character.is_numeric() => Some(Kind::Digits),
        _ if !character.is_alphabetic() => None,
        _ if is_unspaced(character) => Some(Kind::Alone),
        _ => Some(Kind::Letters),
    }
}

/// Counts the numbers of a text: see [`number_ranges`].
pub fn numbers(text: &str) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for (number, _) in number_ranges(text) {
        *numbers.entry(number).or_default() += 1;
    }
    numbers
}

/// Returns the numbers of a text with their ranges in bytes: runs of digits without
/// separators of thousands and zeros at the start, so that `1.000`, `1,000` and `1000` are one
/// number. Units of ten thousand, which Chinese and Japanese write behind digits (`1万`), make a
/// number that is left out.
pub fn number_ranges(text: &str) -> Vec<(String, Range<usize>)> {
    let characters = compatible_characters(text);
    let mut numbers = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        if !characters[index].is_digit() {
            index += 1;
            continue;
        }
        let start = characters[index].range.start;
        let mut digits = String::new();
        index = take_digits(&characters, index, &mut digits);
        while let Some(next) = after_separator(&characters, index) {
            index = take_digits(&characters, next, &mut digits);
        }
        let range = start..characters[index - 1].range.end;
        let unit = characters.get(index).map(|behind| behind.character);
        if unit.is_some_and(|unit| "万亿億兆千百".contains(unit)) {
            continue;
        }
        let number = digits.trim_start_matches('0');
        let number = if number.is_empty() { "0" } else { number };
        numbers.push((number.to_owned(), range));
    }
    numbers
}

/// A character of a text's compatible form (NFKC), such as the digit of a wide one.
struct Compatible {
    character: char,
    /// The bytes of the character in the text that it comes from.
    range: Range<usize>,
}

impl Compatible {
    fn is_digit(&self) -> bool {
        self.character.is_ascii_digit()
    }
}

/// Returns the characters of a text as digits are read: each by itself, which composes no letters.
fn compatible_characters(text: &str) -> Vec<Compatible> {
    let mut characters = Vec::with_capacity(text.len());
    for (start, original) in text.char_indices() {
        let range = start..start + original.len_utf8();
        if original.is_ascii() {
            characters.push(Compatible {
                character: original,
                range,
            });
            continue;
        }
        for character in std::iter::once(original).nfkc() {
            characters.push(Compatible {
                character,
                range: range.clone(),
            });
        }
    }
    characters
}

/// Adds the run of digits at an index to `digits`, and returns the index behind it.
fn take_digits(characters: &[Compatible], mut index: usize, digits: &mut String) -> usize {
    while let Some(digit) = characters.get(index).filter(|next| next.is_digit()) {
        digits.push(digit.character);
        index += 1;
    }
    index
}

/// Returns the index behind a separator of thousands: exactly three digits follow it.
fn after_separator(characters: &[Compatible], index: usize) -> Option<usize> {
    let separator = characters.get(index)?.character;
    if !matches!(separator, '.' | ',' | ' ') {
        return None;
    }
    let group = characters.get(index + 1..index + 4)?;
    let is_group = group.iter().all(Compatible::is_digit);
    let ends = !characters.get(index + 4).is_some_and(Compatible::is_digit);
    (is_group && ends).then_some(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sentences_have_equal_normal_forms() {
        for (left, right) in [
            ("Taxi !", "taxi"),
            ("STRASSE", "Straße"),
            ("cafe\u{301}", "Café"),
            ("ＡＢＣ１", "abc1"),
            ("ὈΔΥΣΣΕΎΣ", "Ὀδυσσεύς"),
        ] {
            assert_eq!(normal_form(left), normal_form(right), "{left} {right}");
        }
        assert_ne!(normal_form("a"), normal_form("ä"));
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_and_single_ideographs() {
        assert_eq!(words("Don't go, 2nd!"), ["don", "t", "go", "2", "nd"]);
        assert_eq!(words("コーヒーを飲む"), ["コーヒー", "を", "飲", "む"]);
        assert_eq!(words("¡¿...?!"), [""; 0]);
        assert_eq!(words("İstanbul, GROẞ"), ["i\u{307}stanbul", "groß"]);
        assert_eq!(word_ranges("¡Él va, ２!"), [2..5, 6..8, 10..13]);
    }

    #[test]
    fn numbers_are_read_with_their_separators() {
        let keys = |text: &str| numbers(text).into_keys().collect::<Vec<_>>();
        assert_eq!(keys("1,000 and 1.000.000"), ["1000", "1000000"]);
        assert_eq!(keys("in 007 days, 3.14"), ["14", "3", "7"]);
        assert_eq!(keys("１２時 1万 0"), ["0", "12"]);
        assert_eq!(numbers("5 of 5")["5"], 2);
        let text = "für 1\u{a0}000 €, １２ h";
        let ranges = number_ranges(text).into_iter();
        let texts: Vec<(String, &str)> = ranges
            .map(|(number, range)| (number, &text[range]))
            .collect();
        let expected = [("1000", "1\u{a0}000"), ("12", "１２")];
        assert_eq!(
            texts,
            expected.map(|(number, part)| (number.to_owned(), part))
        );
    }
}
