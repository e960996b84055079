//! Tables of words that translate each other, learned from pairs: IBM model 1 (Brown et al. 1993,
//! section 4.1).
//!
//! ```text
//! p(f | e_1 .. e_I) = (t(f | null) + sum over i of t(f | e_i)) / (I + 1)
//! t(f | e) = count(e, f) / (count(e) + 0.5)
//! ```
//!
//! The counts are those that the model expects. The 0.5 takes probability from rare words, which
//! would otherwise explain everything they stand beside.

use rayon::prelude::*;

use super::vocabulary::UNKNOWN;

/// Rounds of the EM algorithm.
const ROUNDS: usize = 6;
/// Added to the total count of a conditioning word, which lowers the probabilities of a rare one.
const SHRINKAGE: f64 = 0.5;
/// Smoothing: added to the count of a word under the null word, and of any word in a text.
const NULL_SMOOTHING: f64 = 0.01;
const SMOOTHING: f64 = 0.1;
/// The weight of the probability of a word in any text, against that beside the words of the other
/// side.
const BACKGROUND: f64 = 0.1;
/// The count at which the evidence of a word has half the weight of a frequent one. A rare word
/// looks explained by frequent ones by chance.
const HALF_WEIGHT_COUNT: f64 = 2.0;
/// The bounds of the evidence of a word, a logarithm.
const EVIDENCE: (f64, f64) = (-3.0, 6.0);
/// A word is covered if a word of the other side makes it so many times more probable.
const COVERED: f64 = 3.0;

/// A pair of word numbers: those that condition, and those that are explained.
pub(super) type Words<'a> = (&'a [u32], &'a [u32]);

/// The probabilities t(f | e).
pub(super) struct Table {
    /// `[e]`: where the row of a conditioning word begins; one more at the end.
    starts: Vec<usize>,
    /// The explained words of all rows, in ascending order within a row.
    words: Vec<u32>,
    /// Their probabilities.
    probabilities: Vec<f64>,
    /// `[f]`: the probability of a word in any text; 0 for one that was never seen.
    frequencies: Vec<f64>,
    /// `[f]`: how much a word says, from 0 for one that was never seen to 1.
    weights: Vec<f64>,
}

/// The evidence that the words of one side give about those of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// The mean of how much more probable, as a logarithm, words are beside the other side than in any
    /// text.
    pub(super) mean: f64,
    /// The share of words that no word of the other side explains; here and below words count by how often
    /// they were seen.
    pub(super) uncovered: f64,
    /// The share of the longest run of such words.
    pub(super) longest: f64,
    /// The number of words that the table knows.
    pub(super) num_known: usize,
}

/// The evidence that the words of one side give about a word of the other.
struct WordEvidence {
    /// The logarithm of its probability given these words over its probability in any text.
    log_ratio: f64,
    /// Whether one of them explains it.
    is_covered: bool,
}

impl Table {
    /// Learns from pairs, of vocabularies of `sizes`.
    pub(super) fn learn(pairs: &[Words], sizes: [usize; 2]) -> Self {
        let mut table = Self::empty(pairs, sizes);
        let cells = table.cells(pairs);
        let num_types = table
            .frequencies
            .iter()
            .filter(|&&share| share > 0.0)
            .count();
        let uniform = 1.0 / num_types.max(1) as f64;
        table.probabilities.fill(uniform);
        let mut null = vec![uniform; sizes[1]];
        for _ in 0..ROUNDS {
            let mut counts = vec![0.0; table.words.len()];
            let mut null_counts = vec![0.0; sizes[1]];
            let mut cell = 0;
            for (conditions, explained) in pairs {
                for &word in *explained {
                    let row = &cells[cell..cell + conditions.len()];
                    cell += conditions.len();
                    let null = null[word as usize];
                    let sum: f64 = row
                        .iter()
                        .map(|&cell| table.probabilities[cell as usize])
                        .sum();
                    let scale = 1.0 / (null + sum);
                    null_counts[word as usize] += null * scale;
                    for &cell in row {
                        counts[cell as usize] += table.probabilities[cell as usize] * scale;
                    }
                }
            }
            table.set_probabilities(&counts);
            let all: f64 = null_counts.iter().sum::<f64>() + NULL_SMOOTHING * num_types as f64;
            for (null, count) in null.iter_mut().zip(null_counts) {
                *null = (count + NULL_SMOOTHING) / all;
            }
        }
        table
    }

    /// Makes a table of the words that stand beside each other, without probabilities.
    fn empty(pairs: &[Words], sizes: [usize; 2]) -> Self {
        let mut keys: Vec<u64> = Vec::new();
        let mut counts = vec![0_u64; sizes[1]];
        for (conditions, explained) in pairs {
            for &word in *explained {
                counts[word as usize] += 1;
                keys.extend(conditions.iter().map(|&condition| key(condition, word)));
            }
        }
        keys.par_sort_unstable();
        keys.dedup();
        let mut starts = vec![0; sizes[0] + 1];
        for &key in &keys {
            starts[(key >> 32) as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let num_types = counts.iter().filter(|&&count| count > 0).count() as f64;
        let all = counts.iter().sum::<u64>() as f64 + SMOOTHING * num_types;
        let frequency = |count: u64| {
            if count == 0 {
                0.0
            } else {
                (count as f64 + SMOOTHING) / all
            }
        };
        let weight = |&count: &u64| count as f64 / (count as f64 + HALF_WEIGHT_COUNT);
        Self {
            starts,
            weights: counts.iter().map(weight).collect(),
            probabilities: vec![0.0; keys.len()],
            words: keys.into_iter().map(|key| key as u32).collect(),
            frequencies: counts.into_iter().map(frequency).collect(),
        }
    }

    /// Returns where the probabilities of each pair stand: for each explained word those of all
    /// conditioning words.
    fn cells(&self, pairs: &[Words]) -> Vec<u32> {
        let of_pair = |&(conditions, explained): &Words| -> Vec<u32> {
            let words = explained
                .iter()
                .flat_map(|&word| conditions.iter().map(move |&e| (e, word)));
            words
                .map(|(e, word)| self.find(e, word).expect("it was added") as u32)
                .collect()
        };
        let cells: Vec<Vec<u32>> = pairs.par_iter().map(of_pair).collect();
        cells.concat()
    }

    fn set_probabilities(&mut self, counts: &[f64]) {
        for row in self.starts.windows(2) {
            let range = row[0]..row[1];
            let sum: f64 = counts[range.clone()].iter().sum();
            for index in range {
                self.probabilities[index] = counts[index] / (sum + SHRINKAGE);
            }
        }
    }

    /// Returns where t(f | e) stands.
    fn find(&self, condition: u32, word: u32) -> Option<usize> {
        let start = self.starts[condition as usize];
        let row = &self.words[start..self.starts[condition as usize + 1]];
        row.binary_search(&word).ok().map(|index| start + index)
    }

    /// Says of each explained word whether no word of the other side explains it. Words that the table has
    /// not seen say nothing.
    pub(super) fn are_uncovered(&self, (conditions, explained): Words) -> Vec<bool> {
        let is_uncovered = |&word: &u32| {
            let evidence = self.word_evidence(conditions, word);
            evidence.is_some_and(|evidence| !evidence.is_covered)
        };
        explained.iter().map(is_uncovered).collect()
    }

    /// Weighs a word by those of the other side; `None` if the table has not seen it.
    fn word_evidence(&self, conditions: &[u32], word: u32) -> Option<WordEvidence> {
        let frequency = self.frequencies[word as usize];
        if word == UNKNOWN || frequency == 0.0 {
            return None;
        }
        let mut all = 0.0;
        let mut most = 0.0_f64;
        for &condition in conditions.iter().filter(|&&condition| condition != UNKNOWN) {
            if let Some(index) = self.find(condition, word) {
                all += self.probabilities[index];
                most = most.max(self.probabilities[index]);
            }
        }
        let beside = all / (conditions.len() + 1) as f64 + BACKGROUND * frequency;
        Some(WordEvidence {
            log_ratio: (beside / (frequency * (1.0 + BACKGROUND))).ln(),
            is_covered: most >= COVERED * frequency,
        })
    }

    /// Weighs words by those of the other side. Words that the table has not seen say nothing.
    pub(super) fn evidence(&self, (conditions, explained): Words) -> Evidence {
        let mut sum = 0.0;
        let mut num_known = 0;
        let mut known = 0.0;
        let mut uncovered = 0.0;
        let mut run = 0.0;
        let mut longest = 0.0_f64;
        for &word in explained {
            let Some(of_word) = self.word_evidence(conditions, word) else {
                continue;
            };
            let weight = self.weights[word as usize];
            sum += weight * of_word.log_ratio.clamp(EVIDENCE.0, EVIDENCE.1);
            num_known += 1;
            known += weight;
            if of_word.is_covered {
                run = 0.0;
            } else {
                uncovered += weight;
                run += weight;
                longest = longest.max(run);
            }
        }
        // The denominators keep short sentences from extremes.
        Evidence {
            mean: sum / (known + 1.0),
            uncovered: uncovered / (known + 0.5),
            longest: longest / (known + 2.0),
            num_known,
        }
    }
}

fn key(condition: u32, word: u32) -> u64 {
    u64::from(condition) << 32 | u64::from(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_stand_beside_each_other_explain_each_other() {
        // Each of ten words is its own translation, and stands beside each other one.
        let mut texts = Vec::new();
        for first in 1..=10 {
            texts.extend(
                (1..=10)
                    .filter(|second| *second != first)
                    .map(|second| [first, second]),
            );
        }
        let pairs: Vec<Words> = texts.iter().map(|text| (&text[..], &text[..])).collect();
        let table = Table::learn(&pairs, [12, 12]);
        let right = table.evidence((&[1, 2], &[2, 1]));
        let wrong = table.evidence((&[1, 4], &[2, 3]));
        assert!(right.mean > 0.5 && wrong.mean < -0.5, "{right:?} {wrong:?}");
        assert!(
            right.uncovered == 0.0 && wrong.uncovered > 0.5,
            "{right:?} {wrong:?}"
        );
        assert_eq!(wrong.num_known, 2);
        assert_eq!(
            table.are_uncovered((&[1, 4], &[2, 1, 3, UNKNOWN])),
            [true, false, true, false]
        );
        assert!((0.45..0.5).contains(&wrong.longest), "{wrong:?}");
        // A word that was seen once says a third of what a frequent one says.
        let once: Vec<Words> = pairs
            .iter()
            .copied()
            .chain([(&[11][..], &[11][..])])
            .collect();
        let rare = Table::learn(&once, [12, 12]).evidence((&[1], &[11]));
        assert!(
            (rare.uncovered - (1.0 / 3.0) / (1.0 / 3.0 + 0.5)).abs() < 1e-9,
            "{rare:?}"
        );
        // Unknown words say nothing.
        let nothing = table.evidence((&[1], &[UNKNOWN, 11]));
        assert_eq!(nothing, Evidence::default());
    }
}
