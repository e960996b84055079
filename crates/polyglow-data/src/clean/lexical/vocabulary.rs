//! Words as numbers, by which tables of translations are indexed.

use std::collections::HashMap;

use crate::clean::words::words;

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
        for word in words(text) {
            let next = self.ids.len() as u32 + 1;
            ids.push(*self.ids.entry(stem(&word).to_owned()).or_insert(next));
        }
        ids
    }

    /// Returns the numbers of the words of a text.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let words = words(text);
        let ids = words.iter().map(|word| self.ids.get(stem(word)).copied());
        ids.map(|id| id.unwrap_or(UNKNOWN)).collect()
    }

    /// Returns the number of numbers, with that of unknown words.
    pub(super) fn size(&self) -> usize {
        self.ids.len() + 1
    }
}

fn stem(word: &str) -> &str {
    if word.starts_with(char::is_numeric) {
        return word;
    }
    let end = word.char_indices().nth(STEM);
    end.map_or(word, |(end, _)| &word[..end])
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
}
