//! Which language a text is in: naive Bayes over n-grams of characters.
//!
//! The score of a language L is a sum over the n-grams g of a text that any language has:
//!
//! ```text
//! score(L) = sum of ln(1 + f(g, L) / (0.1 q(g)))     f(g, L): the share of g among L's n-grams of its order
//!                                                   q(g): 0.0001, and the mean of f(g, L) over all L
//! ```
//!
//! It is ln p(g | L), up to what is equal for all languages, where p is smoothed by a Dirichlet prior
//! with the mean q. That an n-gram was not seen costs all languages alike, however much text they were
//! learned from: little text of one is no advantage over much text of another.

mod weights;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rayon::prelude::*;

use self::weights::NgramWeights;
use super::ngrams::{ORDERS, each_ngram, normalized};

/// The weight of the prior.
const PRIOR: f64 = 0.1;
/// What the prior gives to every n-gram, so that a rare one of a single language says little.
const UNKNOWN: f64 = 1e-4;
/// The n-grams of an order that are kept of a language, the most frequent ones.
const KEPT: usize = 10_000;

/// The n-grams of text in one language.
#[derive(Clone, Default)]
pub struct NgramCounts {
    orders: [HashMap<u64, u32, Hashed>; ORDERS],
}

/// A table for keys that are hashes already.
type Hashed = BuildHasherDefault<HashedKey>;

/// Passes a key on as its own hash.
#[derive(Default)]
pub struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are of 64 bits")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl NgramCounts {
    /// Adds a text in NFC that occurs `times` times.
    pub fn add(&mut self, text: &str, times: u32) {
        each_ngram(&normalized(text), |order, hash| {
            *self.orders[order].entry(hash).or_default() += times;
        });
    }

    /// Returns the most frequent n-grams of an order, with their shares among all of it.
    fn shares(&self, order: usize) -> Vec<(u64, f64)> {
        let counts = &self.orders[order];
        let all: f64 = counts.values().map(|&count| f64::from(count)).sum();
        let mut kept: Vec<(u64, u32)> = counts.iter().map(|(&key, &count)| (key, count)).collect();
        if kept.len() > KEPT {
            // Ties are decided by the hash, so that equal text gives equal tables.
            kept.select_nth_unstable_by_key(KEPT, |&(key, count)| (std::cmp::Reverse(count), key));
            kept.truncate(KEPT);
        }
        let shares = kept
            .into_iter()
            .map(|(key, count)| (key, f64::from(count) / all));
        shares.collect()
    }
}

/// Tells languages apart.
pub struct Identifier {
    weights: NgramWeights,
}

impl Identifier {
    /// Learns languages from their n-grams.
    ///
    /// # Panics
    /// There are more than 256.
    pub fn learn(languages: &[NgramCounts]) -> Self {
        assert!(languages.len() <= 256, "languages are counted in a byte");
        let mut entries: Vec<(u64, u8, f64)> = Vec::new();
        for (language, counts) in languages.iter().enumerate() {
            for order in 0..ORDERS {
                let shares = counts.shares(order).into_iter();
                entries.extend(shares.map(|(key, share)| (key, language as u8, share)));
            }
        }
        entries.par_sort_unstable_by_key(|&(key, language, _)| (key, language));
        let mut ngrams: Vec<&[(u64, u8, f64)]> =
            entries.chunk_by(|left, right| left.0 == right.0).collect();
        // N-grams of many languages are frequent in text: their rows stand side by side.
        ngrams.sort_by_key(|entries| std::cmp::Reverse(entries.len()));
        let mut weights = NgramWeights::new(languages.len(), ngrams.len());
        for entries in ngrams {
            let sum: f64 = entries.iter().map(|entry| entry.2).sum();
            let mean = sum / languages.len() as f64 + UNKNOWN;
            let row: Vec<(u8, f32)> = entries
                .iter()
                .map(|&(_, language, share)| (language, (share / (PRIOR * mean)).ln_1p() as f32))
                .collect();
            weights.insert(entries[0].0, &row);
        }
        Self { weights }
    }

    /// Returns the score of each language for a text in NFC; all are 0 if no n-gram is known.
    pub fn scores(&self, text: &str) -> Vec<f32> {
        let normalized = normalized(text);
        let mut hashes = Vec::with_capacity(ORDERS * normalized.len());
        each_ngram(&normalized, |_, hash| hashes.push(hash));
        self.weights.sums(&hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(texts: &[&str]) -> NgramCounts {
        let mut counts = NgramCounts::default();
        for text in texts {
            counts.add(text, 1);
        }
        counts
    }

    #[test]
    fn the_score_is_the_sum_of_what_ngrams_say() {
        let identifier = Identifier::learn(&[counts(&["a"]), counts(&["a b b"])]);
        // The order 1 has `a`, of which the shares are 1 and 1/3; the order 2 ` a` and `a `, with 1/2
        // and 1/6; the order 3 ` a ` and the words with 1 and 1/3.
        let scores = identifier.scores("a");
        let weight = |share: f64, mean: f64| (share / (0.1 * (mean + UNKNOWN))).ln_1p();
        let whole = |share: f64| 3.0 * weight(share, 2.0 / 3.0);
        let half = |share: f64| 2.0 * weight(share, 1.0 / 3.0);
        let expected = [whole(1.0) + half(0.5), whole(1.0 / 3.0) + half(1.0 / 6.0)];
        for (score, expected) in scores.iter().zip(expected) {
            assert!(
                (f64::from(*score) - expected).abs() < 1e-4 * expected,
                "{scores:?} {expected:?}"
            );
        }
        assert_eq!(identifier.scores("ß 1"), [0.0, 0.0]);
    }
}
