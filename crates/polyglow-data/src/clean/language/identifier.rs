//! Language identification: naive Bayes over n-grams of characters, and over words.
//!
//! The score of a language L is a sum over the n-grams g of a text that any language has; words count
//! six times, because short texts are told apart by them:
//!
//! ```text
//! score(L) = sum of ln p(g | L) - ln q(g)
//! p(g | L) = (f(g, L) + a(L) q(g)) / (1 + a(L))      f(g, L): the share of g among L's n-grams of its order
//!                                                   q(g): 0.0006, and the mean of f(g, L) over all L
//! a(L) = 2000 / (letters of L's text)               from 0.005 to 0.2
//! ```
//!
//! This is a Dirichlet prior with the mean q, worth 2000 letters of text in every language: the less text
//! a language was learned from, the more an n-gram that it does not have is forgiven. a(L) is 0.005 at
//! least, because only the most frequent n-grams of large texts are kept; and 0.2 at most, so that a
//! language with hardly any text does not win whatever no other language has.

mod weights;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rayon::prelude::*;

use self::weights::NgramWeights;
use super::ngrams::{LETTERS, ORDERS, WORDS, each_ngram, normalized};

/// The weight of the prior, in letters.
const PRIOR_LETTERS: f64 = 2000.0;
/// The least and the largest weight of the prior, as a share of a language's text.
const LEAST_PRIOR: f64 = 0.005;
const MOST_PRIOR: f64 = 0.2;
/// Added to the mean probability of every n-gram, which is the prior, so that a rare one of a single
/// language is weak evidence.
const UNKNOWN: f64 = 6e-4;
/// The weight of a word. Its n-grams, which overlap, have the weight 1 each.
const WORD_WEIGHT: f32 = 6.0;
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

    /// Returns the number of n-grams of an order.
    fn total(&self, order: usize) -> f64 {
        let counts = self.orders[order].values();
        counts.map(|&count| f64::from(count)).sum()
    }

    /// Returns the weight of the prior, relative to that of the text.
    fn prior(&self) -> f64 {
        (PRIOR_LETTERS / self.total(LETTERS)).clamp(LEAST_PRIOR, MOST_PRIOR)
    }

    /// Returns the most frequent n-grams of an order, with their shares among all of it.
    fn shares(&self, order: usize) -> Vec<(u64, f64)> {
        let counts = &self.orders[order];
        let all = self.total(order);
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
    /// For each n-gram and language the logarithm of the probability, relative to what it would be if the
    /// language did not have the n-gram.
    weights: NgramWeights,
    /// For each language what an n-gram adds to the score if the language does not have it.
    unseen: Vec<f32>,
}

impl Identifier {
    /// Learns languages from their n-grams.
    ///
    /// # Panics
    /// There are more than 256.
    pub fn learn(languages: &[NgramCounts]) -> Self {
        assert!(languages.len() <= 256, "languages are counted in a byte");
        let priors: Vec<f64> = languages.iter().map(NgramCounts::prior).collect();
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
                .map(|&(_, language, share)| {
                    let prior = priors[usize::from(language)] * mean;
                    (language, (share / prior).ln_1p() as f32)
                })
                .collect();
            weights.insert(entries[0].0, &row);
        }
        let unseen = priors.iter().map(|prior| (prior / (1.0 + prior)).ln());
        Self {
            weights,
            unseen: unseen.map(|logarithm| logarithm as f32).collect(),
        }
    }

    /// Returns the score of each language for a text in NFC; all are 0 if no n-gram is known.
    pub fn scores(&self, text: &str) -> Vec<f32> {
        let normalized = normalized(text);
        let mut ngrams = Vec::with_capacity(ORDERS * normalized.len());
        let mut words = Vec::new();
        each_ngram(&normalized, |order, hash| {
            if order == WORDS {
                words.push(hash);
            } else {
                ngrams.push(hash);
            }
        });
        let (ngram_sums, known_ngrams) = self.weights.sums(&ngrams);
        let (word_sums, known_words) = self.weights.sums(&words);
        let known = known_ngrams as f32 + WORD_WEIGHT * known_words as f32;
        let sums = ngram_sums.iter().zip(word_sums);
        sums.zip(&self.unseen)
            .map(|((ngrams, words), unseen)| ngrams + WORD_WEIGHT * words + known * unseen)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_sum_of_what_ngrams_say() {
        // Of 600 000 letters, with the least prior, and of 30 000.
        let mut much = NgramCounts::default();
        much.add("a", 600_000);
        let mut little = NgramCounts::default();
        little.add("a b b", 10_000);
        let identifier = Identifier::learn(&[much, little]);
        // The order 1 has `a`, of which the shares are 1 and 1/3; the order 2 ` a` and `a `, with 1/2
        // and 1/6; the order 3 ` a ` and the words, which count six times, with 1 and 1/3.
        let weight = |share: f64, mean: f64, prior: f64| {
            let mean = mean + 6e-4;
            ((share + prior * mean) / (1.0 + prior) / mean).ln()
        };
        let score = |whole: f64, prior: f64| {
            8.0 * weight(whole, 2.0 / 3.0, prior) + 2.0 * weight(whole / 2.0, 1.0 / 3.0, prior)
        };
        let close = |scores: &[f32], expected: [f64; 2]| {
            for (score, expected) in scores.iter().zip(expected) {
                let error = (f64::from(*score) - expected).abs();
                // Ten weights below 8, of which 15 bits behind the first are kept.
                assert!(error < 10.0 * 8.0 / 32768.0, "{scores:?} {expected:?}");
            }
        };
        let expected = [score(1.0, 0.005), score(1.0 / 3.0, 1.0 / 15.0)];
        close(&identifier.scores("a"), expected);
        // One language does not have `b`.
        let share = |share: f64, prior: f64| {
            8.0 * weight(share, 1.0 / 3.0, prior) + 2.0 * weight(share / 2.0, 1.0 / 6.0, prior)
        };
        let expected = [share(0.0, 0.005), share(2.0 / 3.0, 1.0 / 15.0)];
        close(&identifier.scores("b"), expected);
        assert_eq!(identifier.scores("ß 1"), [0.0, 0.0]);
    }
}
