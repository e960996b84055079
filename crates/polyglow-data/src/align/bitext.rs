//! Parallel text as integers: each side one long list of words, cut into sentences.

use std::collections::HashMap;
use std::ops::Range;

/// The most words of a side that are aligned. The table of a pair has a cell for each two words, so
/// that a page on one line would take more memory than all the rest of a text.
pub const MAX_WORDS: usize = 400;

/// Pairs of sentences as lists of integers. Words are what stands between white space, as the
/// Pharaoh format counts them, and are the same word whatever their case is.
#[derive(Debug, Default)]
pub struct Bitext {
    pub(super) src: Side,
    pub(super) tgt: Side,
    /// Pairs with more than [`MAX_WORDS`] words on a side, which get no links.
    too_long: usize,
}

/// One side of a text.
#[derive(Debug)]
pub(super) struct Side {
    /// The words of all sentences, one sentence after the other.
    pub(super) words: Vec<u32>,
    /// The index in `words` of each sentence's first word, and behind them the number of all words.
    pub(super) starts: Vec<usize>,
    /// Whether a word stands more than once in each sentence.
    pub(super) repeats: Vec<bool>,
    /// The number of each word that occurs.
    vocabulary: HashMap<String, u32>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            starts: vec![0],
            repeats: Vec::new(),
            vocabulary: HashMap::new(),
        }
    }
}

impl Bitext {
    /// Makes a text of pairs.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = Self::default();
        for (src, tgt) in pairs {
            text.push(src, tgt);
        }
        text
    }

    /// Adds a pair. One with more than [`MAX_WORDS`] words on a side counts as empty.
    pub fn push(&mut self, src: &str, tgt: &str) {
        let is_long = |side: &str| side.split_whitespace().nth(MAX_WORDS).is_some();
        if is_long(src) || is_long(tgt) {
            self.too_long += 1;
            self.src.push("");
            self.tgt.push("");
            return;
        }
        self.src.push(src);
        self.tgt.push(tgt);
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of words of both sides of a pair, as it is aligned.
    pub fn num_words(&self, pair: usize) -> [usize; 2] {
        [&self.src, &self.tgt].map(|side| side.sentence(pair).len())
    }

    /// The number of pairs that get no links because a side has more than [`MAX_WORDS`] words.
    pub fn too_long(&self) -> usize {
        self.too_long
    }

    /// The number of cells of all pairs: the products of the numbers of words of their sides.
    /// Memory and time are proportional to it.
    pub fn num_cells(&self) -> usize {
        (0..self.len())
            .map(|pair| self.src.sentence(pair).len() * self.tgt.sentence(pair).len())
            .sum()
    }
}

impl Side {
    fn push(&mut self, text: &str) {
        for word in text.split_whitespace() {
            let word = fold_case(word);
            let next = self.vocabulary.len() as u32;
            self.words
                .push(*self.vocabulary.entry(word).or_insert(next));
        }
        let mut sentence = self.words[self.starts[self.len()]..].to_vec();
        sentence.sort_unstable();
        self.repeats
            .push(sentence.windows(2).any(|two| two[0] == two[1]));
        self.starts.push(self.words.len());
    }

    /// The number of sentences.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of different words.
    pub(super) fn num_words(&self) -> usize {
        self.vocabulary.len()
    }

    /// The words of a sentence.
    pub(super) fn sentence(&self, index: usize) -> &[u32] {
        &self.words[self.of_sentence(index)]
    }

    /// The indices of the words of a sentence.
    pub(super) fn of_sentence(&self, index: usize) -> Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }
}

/// Folds the case of a word: upper case first, because some letters have two in lower case, such as
/// the Greek sigma.
fn fold_case(word: &str) -> String {
    let upper = word.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_equal_whatever_their_case() {
        let text = Bitext::new([("Das  das\tDAS", "ΣΑΣ σας"), ("", "x")]);
        assert_eq!(text.src.words, [0, 0, 0]);
        assert_eq!(text.tgt.words, [0, 0, 1]);
        assert_eq!(text.tgt.sentence(1), [1]);
        assert_eq!((text.len(), text.num_cells()), (2, 6));
    }

    #[test]
    fn a_page_on_one_line_counts_as_empty() {
        let page = "word ".repeat(MAX_WORDS + 1);
        let text = Bitext::new([("a", &*page), ("a", page.strip_suffix("word ").unwrap())]);
        assert_eq!((text.len(), text.too_long()), (2, 1));
        assert_eq!(text.num_cells(), MAX_WORDS);
    }
}
