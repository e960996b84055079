//! Counters of the word pairs of a text.

use std::ops::Range;

use super::bitext::{Bitext, Side};

/// The counter of words that occur together once in the whole text. Without the link in question
/// their count is always 0, so they need no counter of their own; in natural language that is most
/// of what occurs together.
pub(super) const ALONE: u32 = 0;

/// For each two words of each pair, the number of the counter of their links.
///
/// A pair of `I` source and `J` target words has `J` rows of `I` cells, one behind the other; the
/// rows of the next pair follow. A chain reads them in this order, or down the columns in the other
/// direction, so that only the counters themselves are read at random.
pub(super) struct Cells {
    /// The number of a counter for each cell.
    pub(super) counters: Vec<u32>,
    /// The index of the first cell of each pair, and behind them the number of all cells.
    pub(super) starts: Vec<usize>,
    /// The number of counters, with [`ALONE`].
    pub(super) num_counters: usize,
}

impl Cells {
    /// Numbers the counters of a text.
    ///
    /// All occurrences of one source word are looked at before those of the next. A list of the
    /// target words then says which of them the source word has met: no table of pairs of words is
    /// needed, and the counters of a source word are neighbors.
    pub(super) fn new(text: &Bitext) -> Self {
        let starts = cell_starts(text);
        let mut counters = vec![ALONE; starts[text.len()]];
        let mut num_counters = 1;
        let mut met = vec![Met::default(); text.tgt.num_words()];
        let occurrences = Occurrences::new(&text.src);
        for word in 0..text.src.num_words() {
            let occurrences = occurrences.of(word);
            for &(pair, _) in occurrences {
                for &tgt in text.tgt.sentence(pair as usize) {
                    met[tgt as usize].times += 1;
                }
            }
            for &(pair, position) in occurrences {
                let pair = pair as usize;
                if starts[pair] == starts[pair + 1] {
                    // The target is empty: there is no row of cells.
                    continue;
                }
                let row_len = text.src.sentence(pair).len();
                let column = starts[pair] + position as usize..starts[pair + 1];
                let cells = counters[column].iter_mut().step_by(row_len);
                for (cell, &tgt) in cells.zip(text.tgt.sentence(pair)) {
                    *cell = met[tgt as usize].counter(&mut num_counters);
                }
            }
            for &(pair, _) in occurrences {
                for &tgt in text.tgt.sentence(pair as usize) {
                    met[tgt as usize] = Met::default();
                }
            }
        }
        Self {
            counters,
            starts,
            num_counters: num_counters as usize,
        }
    }

    /// The cells of a pair.
    pub(super) fn of_pair(&self, index: usize) -> Range<usize> {
        self.starts[index]..self.starts[index + 1]
    }
}

/// A target word, as a source word has met it.
#[derive(Clone, Copy, Default)]
struct Met {
    /// The number of times that they occur together.
    times: u32,
    /// Their counter, once they have one.
    counter: u32,
}

impl Met {
    /// Returns the counter, which is the next one if there is none yet.
    fn counter(&mut self, next: &mut u32) -> u32 {
        if self.times > 1 && self.counter == ALONE {
            self.counter = *next;
            *next += 1;
        }
        self.counter
    }
}

/// The index of the first cell of each pair, and behind them the number of all cells.
fn cell_starts(text: &Bitext) -> Vec<usize> {
    let mut starts = Vec::with_capacity(text.len() + 1);
    let mut cells = 0;
    starts.push(cells);
    for pair in 0..text.len() {
        cells += text.src.sentence(pair).len() * text.tgt.sentence(pair).len();
        starts.push(cells);
    }
    starts
}

/// The sentences and positions at which each word occurs.
struct Occurrences {
    /// Sentence and position, sorted by word.
    sorted: Vec<(u32, u32)>,
    /// The index of the first occurrence of each word, and behind them the number of all.
    starts: Vec<usize>,
}

impl Occurrences {
    fn new(side: &Side) -> Self {
        let mut starts = vec![0; side.num_words() + 1];
        for &word in &side.words {
            starts[word as usize + 1] += 1;
        }
        for word in 0..side.num_words() {
            starts[word + 1] += starts[word];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0, 0); side.words.len()];
        for sentence in 0..side.len() {
            for (position, &word) in side.sentence(sentence).iter().enumerate() {
                let slot = &mut next[word as usize];
                sorted[*slot] = (sentence as u32, position as u32);
                *slot += 1;
            }
        }
        Self { sorted, starts }
    }

    fn of(&self, word: usize) -> &[(u32, u32)] {
        &self.sorted[self.starts[word]..self.starts[word + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_meet_more_than_once_share_a_counter_wherever_they_meet() {
        let text = Bitext::new([
            ("a b", "x y z"),
            ("b", "y"),
            ("", "x"),
            ("a b", ""),
            ("a", "x"),
        ]);
        let cells = Cells::new(&text);
        // The rows of the first pair are those of x, y and z.
        assert_eq!(cells.counters, [1, 0, 0, 2, 0, 0, 2, 1]);
        assert_eq!(cells.starts, [0, 6, 7, 7, 7, 8]);
        assert_eq!(cells.num_counters, 3);
    }

    #[test]
    fn a_word_that_occurs_twice_in_a_sentence_meets_its_partner_twice() {
        let cells = Cells::new(&Bitext::new([("a a b", "x")]));
        assert_eq!(cells.counters, [1, 1, 0]);
    }
}
