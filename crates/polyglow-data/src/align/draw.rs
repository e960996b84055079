//! Drawing the links of one pair: the loop in which an alignment spends its time.
//!
//! The unnormalized probability of a condition has a factor that depends on the word that is drawn,
//! `n(e, f) + 0.001`, which is read at random from memory; two that depend on its neighbors, which
//! are read upwards from a table; and the rest, `(1 - p0) F(e, n + 1) / F(e, n) / (n(e) + 0.001
//! V)`, which is kept for each condition, as it changes for those two alone that a word leaves and
//! takes.

use super::chain::{DirectedPair, NULL};
use super::counts::WordCounts;
use super::fertility::{Fertilities, count_links};
use super::jumps::Jumps;
use crate::random::Random;

/// Sums of weights that are added at once.
const LANES: usize = 8;

/// The tables and buffers with which the links of one pair are drawn.
pub(super) struct Draw<'a> {
    pub(super) pair: &'a DirectedPair<'a>,
    /// The prior probability of a word without a link.
    pub(super) null: f32,
    /// The probabilities of jumps, if they are looked at.
    pub(super) jumps: Option<&'a Jumps>,
    /// The ratios of fertilities, if they are looked at.
    pub(super) fertilities: Option<&'a Fertilities>,
    pub(super) counts: &'a mut WordCounts,
    pub(super) scratch: &'a mut Scratch,
}

/// Lists that are kept from pair to pair for their memory.
#[derive(Default)]
pub(super) struct Scratch {
    /// The number of links of each condition.
    fertilities: Vec<u16>,
    /// For each generated word the position of the next linked one behind it.
    behind: Vec<isize>,
    /// The factor of each condition that does not depend on the word that is drawn.
    factors: Vec<f32>,
    /// The unnormalized probability of each condition, and zeros up to a multiple of [`LANES`].
    weights: Vec<f32>,
}

impl Draw<'_> {
    /// Draws the links of all words, from the first on, and adds their probabilities to the
    /// marginals, where `unit` stands for 1; with 0 nothing is added.
    pub(super) fn draw_all(
        &mut self,
        links: &mut [u16],
        random: Random,
        unit: u16,
        marginals: &mut [u16],
    ) {
        let num_conditions = self.pair.conditions.len();
        let mut random = Uniform::new(random);
        self.prepare(links);
        let mut before = -1;
        for (word, link) in links.iter_mut().enumerate() {
            self.exclude(word, *link);
            let neighbors = [before, self.scratch.behind[word]];
            let null = self.weigh(word, neighbors);
            let all = null + sum(&self.scratch.weights);
            let weights = &self.scratch.weights[..num_conditions];
            if unit > 0 {
                let row = &mut marginals[word * num_conditions..][..num_conditions];
                add_marginals(weights, f32::from(unit) / all, row);
            }
            *link = choose(weights, null, *link, all * random.next());
            self.include(word, *link);
            if *link != NULL {
                before = *link as isize;
            }
        }
    }

    /// Fills the lists for the present links.
    fn prepare(&mut self, links: &[u16]) {
        let conditions = self.pair.conditions;
        count_links(conditions.len(), links, &mut self.scratch.fertilities);
        find_behind(conditions.len(), links, &mut self.scratch.behind);
        self.scratch.factors.clear();
        for (index, &condition) in conditions.iter().enumerate() {
            let factor = self.factor(condition, self.scratch.fertilities[index]);
            self.scratch.factors.push(factor);
        }
        self.scratch.weights.clear();
        let padded = conditions.len().next_multiple_of(LANES);
        self.scratch.weights.resize(padded, 0.0);
    }

    /// Counts the link of a word.
    fn include(&mut self, word: usize, link: u16) {
        self.pair.include(self.counts, word, link);
        if link != NULL {
            self.scratch.fertilities[usize::from(link)] += 1;
            self.update_factors(usize::from(link));
        }
    }

    /// Takes the link of a word out of the counts.
    fn exclude(&mut self, word: usize, link: u16) {
        self.pair.exclude(self.counts, word, link);
        if link != NULL {
            self.scratch.fertilities[usize::from(link)] -= 1;
            self.update_factors(usize::from(link));
        }
    }

    /// Computes the factor of a condition again, wherever it stands in the sentence, after the
    /// links of one position have changed.
    fn update_factors(&mut self, position: usize) {
        let changed = self.pair.conditions[position];
        if !self.pair.repeats {
            let links = self.scratch.fertilities[position];
            self.scratch.factors[position] = self.factor(changed, links);
            return;
        }
        for (index, &condition) in self.pair.conditions.iter().enumerate() {
            if condition == changed {
                let links = self.scratch.fertilities[index];
                self.scratch.factors[index] = self.factor(condition, links);
            }
        }
    }

    /// The factor of a condition that has `links` links.
    fn factor(&self, condition: u32, links: u16) -> f32 {
        let linked = (1.0 - self.null) * self.counts.inverse(condition);
        match self.fertilities {
            Some(fertilities) => linked * fertilities.ratio(condition, links),
            None => linked,
        }
    }

    /// Computes the unnormalized probability of each condition, and returns the same of none.
    fn weigh(&mut self, word: usize, [before, behind]: [isize; 2]) -> f32 {
        let pair = self.pair;
        let num_conditions = pair.conditions.len();
        let weights = &mut self.scratch.weights[..num_conditions];
        let factors = &self.scratch.factors[..num_conditions];
        let [row_stride, stride] = pair.strides;
        let mut cell = word * row_stride;
        for (weight, factor) in weights.iter_mut().zip(factors) {
            *weight = self.counts.smoothed(pair.counters[cell]) * factor;
            cell += stride;
        }
        let null = self.null * self.counts.null_probability(pair.generated[word]);
        let Some(jumps) = self.jumps else {
            let uniform = 1.0 / num_conditions as f32;
            for weight in weights {
                *weight *= uniform;
            }
            return null;
        };
        let to = &jumps.away_from(before)[..num_conditions];
        let from = &jumps.towards(behind)[..num_conditions];
        for (weight, (to, from)) in weights.iter_mut().zip(to.iter().zip(from)) {
            *weight *= to * from;
        }
        null * jumps.over(behind - before)
    }
}

/// Finds for each word the position of the next linked word behind it; behind the last one it is
/// the number of conditions.
fn find_behind(num_conditions: usize, links: &[u16], behind: &mut Vec<isize>) {
    behind.clear();
    behind.resize(links.len(), 0);
    let mut next = num_conditions as isize;
    for (behind, &link) in behind.iter_mut().zip(links).rev() {
        *behind = next;
        if link != NULL {
            next = link as isize;
        }
    }
}

/// Adds weights, in as many sums as there are lanes, which are added at the end: the processor need
/// not wait for one addition before it begins the next, and the result is the same everywhere.
fn sum(weights: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for chunk in weights.chunks_exact(LANES) {
        for (sum, weight) in sums.iter_mut().zip(chunk) {
            *sum += weight;
        }
    }
    sums.iter().sum()
}

/// Adds probabilities to the marginals of a word.
fn add_marginals(weights: &[f32], scale: f32, marginals: &mut [u16]) {
    for (marginal, weight) in marginals.iter_mut().zip(weights) {
        // Through `i32`, for which the processor has an instruction.
        let rounded = (weight * scale + 0.5) as i32 as u16;
        *marginal = marginal.saturating_add(rounded);
    }
}

/// Chooses a link in proportion to the weights, by a `point` between 0 and the sum of all.
///
/// The old link has the first part of that line: most words keep their link, which is then known
/// after one comparison.
fn choose(weights: &[f32], null: f32, old: u16, point: f32) -> u16 {
    let mut left = point - weights.get(usize::from(old)).unwrap_or(&null);
    if left < 0.0 {
        return old;
    }
    for (index, weight) in weights.iter().enumerate() {
        if index != usize::from(old) {
            left -= weight;
        }
        if left < 0.0 {
            return index as u16;
        }
    }
    NULL
}

/// Uniform random numbers, two of each 64 random bits.
struct Uniform {
    random: Random,
    /// The bits of the next number, if it is the second one.
    second: Option<u64>,
}

impl Uniform {
    fn new(random: Random) -> Self {
        Self {
            random,
            second: None,
        }
    }

    /// Draws a number in `[0, 1)`, with the 24 bits that an `f32` holds.
    fn next(&mut self) -> f32 {
        let bits = if let Some(bits) = self.second.take() {
            bits
        } else {
            let bits = self.random.bits();
            self.second = Some(bits << 32);
            bits
        };
        (bits >> 40) as f32 / (1 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_chosen_in_proportion_to_their_weights() {
        let weights = [1.0, 2.0, 3.0];
        let mut random = Uniform::new(Random::new(7));
        for old in [0, 2, NULL] {
            let mut chosen = [0; 4];
            for _ in 0..100_000 {
                let link = choose(&weights, 4.0, old, 10.0 * random.next());
                chosen[usize::from(link).min(3)] += 1;
            }
            for (count, expected) in chosen.iter().zip([10_000, 20_000, 30_000, 40_000]) {
                assert!(i32::abs(count - expected) < 500, "{old}: {chosen:?}");
            }
        }
    }

    #[test]
    fn the_next_link_behind_a_word_is_found() {
        let mut behind = Vec::new();
        find_behind(5, &[3, NULL, 1, NULL], &mut behind);
        assert_eq!(behind, [1, 1, 5, 5]);
    }

    #[test]
    fn a_sum_is_that_of_all_weights() {
        let mut weights: Vec<f32> = (1..=11).map(|weight| weight as f32).collect();
        weights.resize(16, 0.0);
        assert!((sum(&weights) - 66.0).abs() < 1e-6);
    }
}
