//! Counts of linked words, and the probabilities that are derived from them.

use super::bitext::Side;
use super::cells::ALONE;

/// The prior of each word that a word may be translated to: a Dirichlet distribution that prefers
/// few of them (Östling and Tiedemann, 2016, section 2).
const WORD_PRIOR: f32 = 0.001;

/// Counts of linked words: `n(e, f)`, `n(e)` and the same of the null word. A link that is
/// drawn anew is taken out before, so the counts are those of all others.
pub(super) struct WordCounts {
    /// `n(e, f)`, by the counters of the cells; whole numbers, which are exact up to 2^24.
    pairs: Vec<f32>,
    /// `n(e)`, for each condition.
    conditions: Vec<u32>,
    /// `1 / (n(e) + 0.001 V)`, for each condition, with the `V` words that may be generated.
    inverses: Vec<f32>,
    /// `n(null, f)`, for each generated word.
    nulls: Vec<u32>,
    /// `n(null)`.
    all_nulls: u32,
    /// `0.001 V`.
    prior_mass: f32,
}

impl WordCounts {
    /// Begins without links.
    pub(super) fn new(num_counters: usize, conditions: &Side, generated: &Side) -> Self {
        let prior_mass = WORD_PRIOR * generated.num_words() as f32;
        Self {
            pairs: vec![0.0; num_counters],
            conditions: vec![0; conditions.num_words()],
            inverses: vec![1.0 / prior_mass; conditions.num_words()],
            nulls: vec![0; generated.num_words()],
            all_nulls: 0,
            prior_mass,
        }
    }

    /// Counts a link from a condition, by the counter of its cell.
    pub(super) fn add(&mut self, condition: u32, counter: u32) {
        self.pairs[counter as usize] += 1.0;
        self.pairs[ALONE as usize] = 0.0;
        self.conditions[condition as usize] += 1;
        self.invert(condition);
    }

    /// Takes a link out again.
    pub(super) fn remove(&mut self, condition: u32, counter: u32) {
        self.pairs[counter as usize] -= 1.0;
        self.pairs[ALONE as usize] = 0.0;
        self.conditions[condition as usize] -= 1;
        self.invert(condition);
    }

    fn invert(&mut self, condition: u32) {
        let condition = condition as usize;
        let all = self.conditions[condition] as f32;
        self.inverses[condition] = 1.0 / (all + self.prior_mass);
    }

    /// Counts a word without a link.
    pub(super) fn add_null(&mut self, word: u32) {
        self.nulls[word as usize] += 1;
        self.all_nulls += 1;
    }

    /// Takes a word without a link out again.
    pub(super) fn remove_null(&mut self, word: u32) {
        self.nulls[word as usize] -= 1;
        self.all_nulls -= 1;
    }

    /// `n(e, f) + 0.001`, which with [`Self::inverse`] is the probability that a condition
    /// generates a word.
    pub(super) fn smoothed(&self, counter: u32) -> f32 {
        self.pairs[counter as usize] + WORD_PRIOR
    }

    /// `1 / (n(e) + 0.001 V)`.
    pub(super) fn inverse(&self, condition: u32) -> f32 {
        self.inverses[condition as usize]
    }

    /// The probability that the null word generates a word.
    pub(super) fn null_probability(&self, word: u32) -> f32 {
        let count = self.nulls[word as usize] as f32;
        (count + WORD_PRIOR) / (self.all_nulls as f32 + self.prior_mass)
    }
}
