//! A random sample of the pairs of a corpus, the same for the same corpus.

use crate::clean::lexical::Sampled;
use crate::pair::Pair;
use crate::random::mix;

/// The most pairs of a sample.
const SIZE: usize = 200_000;
/// The seed from which, with the numbers of the pairs, the keys of samples are made.
const SEED: u64 = 0x636c_6561_6e00;

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
