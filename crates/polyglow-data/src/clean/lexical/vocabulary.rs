//! Words as numbers, by which tables of translations are indexed.

use std::collections::HashMap;
use std::ops::Range;

use crate::clean::words::{fold, word_ranges};
use crate::script::is_unspaced;

/// Characters of a word that are kept: its ending says little about its translation, and words that
/// share their beginnings share their counts. Digits are kept whole.
const STEM: usize = 5;

/// The number of a word that a vocabulary lacks.
pub(super) const UNKNOWN: u32 = 0;

/// The words of a side.
#[derive(Default)]
pub(super) struct Vocabulary {
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// Returns the numbers of the words of a text, and gives new words the next numbers.
    pub(super) fn add(&mut self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for range in token_ranges(text) {
            let next = self.ids.len() as u32 + 1;
            ids.push(*self.ids.entry(stem(&text[range])).or_insert(next));
        }
        ids
    }

    /// Returns the numbers of the words of a text, one for each of its [`token_ranges`].
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let ranges = token_ranges(text).into_iter();
        let ids = ranges.map(|range| self.ids.get(&stem(&text[range])).copied());
        ids.map(|id| id.unwrap_or(UNKNOWN)).collect()
    }

    /// Returns the number of numbers, with that of unknown words.
    pub(super) fn size(&self) -> usize {
        self.ids.len() + 1
    }
}

/// Returns where the tokens of a text stand, in bytes: its words, and in a script without blanks
/// its characters and its character bigrams. A bigram comes behind its first character, and begins
/// where that does. (Marks between two characters, as Thai and Khmer have them, are no words, and
/// there is no bigram across them.)
pub(super) fn token_ranges(text: &str) -> Vec<Range<usize>> {
    let words = word_ranges(text);
    let mut ranges = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        ranges.push(word.clone());
        let next = words.get(index + 1).filter(|next| next.start == word.end);
        if let Some(next) = next
            && is_unspaced_character(&text[word.clone()])
            && is_unspaced_character(&text[next.clone()])
        {
            ranges.push(word.start..next.end);
        }
    }
    ranges
}

/// Whether a word is a single character of a script without blanks, unlike a run of katakana.
fn is_unspaced_character(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(is_unspaced) && characters.next().is_none()
}

/// Returns what is the same in all forms of a word.
fn stem(word: &str) -> String {
    let mut word = fold(word);
    if word.starts_with(char::is_numeric) {
        return word;
    }
    if let Some((end, _)) = word.char_indices().nth(STEM) {
        word.truncate(end);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_numbered_by_their_beginnings() {
        let mut vocabulary = Vocabulary::default();
        assert_eq!(
            vocabulary.add("The translated translation, 1234567"),
            [1, 2, 2, 3]
        );
        assert_eq!(vocabulary.encode("THE translator 1234568"), [1, 2, UNKNOWN]);
        assert_eq!(vocabulary.size(), 4);
    }

    #[test]
    fn characters_without_blanks_are_words_and_so_are_two_of_them() {
        let token_ranges = |text| -> Vec<&str> {
            super::token_ranges(text)
                .into_iter()
                .map(|range| &text[range])
                .collect()
        };
        assert_eq!(
            token_ranges("犬が、いるコーヒー dog"),
            ["犬", "犬が", "が", "い", "いる", "る", "コーヒー", "dog"]
        );
    }
}
