//! Random samples of the pairs of a corpus, the same for the same corpus.

use crate::pair::Pair;
use crate::random::{mix, shuffle};

/// The most pairs of a sample.
const SIZE: usize = 200_000;
/// The seed from which, with the numbers of the pairs, the keys of samples are made.
const SEED: u64 = 0x636c_6561_6e00;

/// A pair to learn from.
pub struct Sampled {
    /// The number of the pair in its corpus.
    pub index: u64,
    /// The pair, repaired.
    pub pair: Pair,
}

/// A sample of pairs that are offered one after the other: those with the lowest keys, which are
/// hashes of the pairs' numbers.
pub(super) struct Sample {
    /// The largest key that is taken.
    limit: u64,
    pairs: Vec<Sampled>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            limit: u64::MAX,
            pairs: Vec::new(),
        }
    }
}

impl Sample {
    /// Takes a pair, by its number in the corpus, or leaves it.
    pub(super) fn offer(&mut self, index: u64, pair: Pair) {
        if key(index) > self.limit {
            return;
        }
        self.pairs.push(Sampled { index, pair });
        if self.pairs.len() == 2 * SIZE {
            self.shrink();
        }
    }

    /// Keeps the pairs with the lowest keys.
    fn shrink(&mut self) {
        self.pairs
            .select_nth_unstable_by_key(SIZE - 1, |sampled| key(sampled.index));
        self.pairs.truncate(SIZE);
        self.limit = key(self.pairs[SIZE - 1].index);
    }

    /// Returns the pairs in the order of their numbers.
    pub(super) fn finish(mut self) -> Vec<Sampled> {
        if self.pairs.len() > SIZE {
            self.shrink();
        }
        self.pairs.sort_unstable_by_key(|sampled| sampled.index);
        self.pairs
    }
}

fn key(index: u64) -> u64 {
    mix(&[SEED, index])
}

/// Chooses pairs whose cells are at most `most` together: all, or some at random, by a seed.
/// Returns their indices in ascending order; `cells` has the number of cells of each, words of its
/// source times words of its target.
pub(super) fn choose_within(most: usize, cells: &[usize], seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    shuffle(&mut order, seed);
    let mut rest = most;
    let mut fits = |index: &usize| {
        let is_small = cells[*index] <= rest;
        if is_small {
            rest -= cells[*index];
        }
        is_small
    };
    let mut chosen: Vec<usize> = order.into_iter().filter(&mut fits).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_chosen_up_to_a_number_of_cells() {
        assert_eq!(choose_within(6, &[1, 2, 3], 1), [0, 1, 2]);
        // A pair that is too large by itself takes nothing from the others.
        let cells: Vec<usize> = (0..100)
            .map(|index| if index == 50 { 500 } else { 1 })
            .collect();
        let chosen = choose_within(30, &cells, 1);
        assert_eq!(chosen.len(), 30);
        assert!(chosen.is_sorted() && !chosen.contains(&50), "{chosen:?}");
        // They are from all over the text.
        assert!(chosen[0] < 20 && chosen[29] >= 80, "{chosen:?}");
    }
}
