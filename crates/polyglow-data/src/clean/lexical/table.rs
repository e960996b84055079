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

use std::sync::Arc;

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

/// The words that stand beside each other, in the order in which tables have their probabilities.
struct Cooccurrences {
    /// `[e]`: where the row of a conditioning word begins; one more at the end.
    starts: Vec<usize>,
    /// The explained words of all rows, in ascending order within a row.
    words: Vec<u32>,
}

/// Pairs that tables are learned from, and where their probabilities stand.
pub(super) struct Bitext<'a> {
    pairs: &'a [Words<'a>],
    cooccurrences: Arc<Cooccurrences>,
    /// The indices of the probabilities of all pairs: for each explained word those beside all
    /// conditioning words.
    cells: Vec<u32>,
    /// The sizes of the vocabularies.
    sizes: [usize; 2],
}

/// The probabilities t(f | e).
pub(super) struct Table {
    cooccurrences: Arc<Cooccurrences>,
    /// The probabilities, as [`Cooccurrences`] has the words; 0 for words that the table has not seen
    /// beside each other.
    probabilities: Vec<f32>,
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

impl Cooccurrences {
    /// Collects the words of pairs, of which `num_conditions` are conditioning ones.
    fn from_pairs(pairs: &[Words], num_conditions: usize) -> Self {
        let mut starts = vec![0; num_conditions + 1];
        for (conditions, explained) in pairs {
            for &condition in *conditions {
                starts[condition as usize + 1] += explained.len();
            }
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut words = vec![0; starts[num_conditions]];
        let mut ends = starts.clone();
        for (conditions, explained) in pairs {
            for &condition in *conditions {
                let end = &mut ends[condition as usize];
                words[*end..*end + explained.len()].copy_from_slice(explained);
                *end += explained.len();
            }
        }
        // In place: rows of a frequent word repeat most of their words.
        let lengths = starts.windows(2).map(|row| row[1] - row[0]);
        let lengths: Vec<usize> = split(&mut words, lengths)
            .into_par_iter()
            .map(|row| {
                row.sort_unstable();
                without_repetitions(row)
            })
            .collect();
        let mut end = 0;
        for (index, length) in lengths.into_iter().enumerate() {
            let start = starts[index];
            words.copy_within(start..start + length, end);
            starts[index] = end;
            end += length;
        }
        starts[num_conditions] = end;
        words.truncate(end);
        words.shrink_to_fit();
        Self { starts, words }
    }

    /// Returns where t(f | e) stands, of words that were collected.
    fn index_of(&self, condition: u32, word: u32) -> u32 {
        let index = self.find(condition, word).expect("it was collected");
        u32::try_from(index).expect("cells are bounded")
    }

    /// Returns where t(f | e) stands.
    fn find(&self, condition: u32, word: u32) -> Option<usize> {
        let start = self.starts[condition as usize];
        let row = &self.words[start..self.starts[condition as usize + 1]];
        row.binary_search(&word).ok().map(|index| start + index)
    }
}

/// Cuts a slice into parts of these lengths, which add up to its own.
fn split(mut whole: &mut [u32], lengths: impl Iterator<Item = usize>) -> Vec<&mut [u32]> {
    let mut parts = Vec::new();
    for length in lengths {
        let (part, rest) = whole.split_at_mut(length);
        parts.push(part);
        whole = rest;
    }
    parts
}

/// Moves the different words of a sorted row to its front, and returns their number.
fn without_repetitions(row: &mut [u32]) -> usize {
    let mut length = 0;
    for index in 0..row.len() {
        if index == 0 || row[index] != row[index - 1] {
            row[length] = row[index];
            length += 1;
        }
    }
    length
}

impl<'a> Bitext<'a> {
    /// Prepares tables of pairs, of vocabularies of `sizes`.
    pub(super) fn new(pairs: &'a [Words<'a>], sizes: [usize; 2]) -> Self {
        let cooccurrences = Cooccurrences::from_pairs(pairs, sizes[0]);
        let lengths = pairs.iter().map(|pair| num_cells(*pair));
        let mut cells = vec![0; lengths.clone().sum()];
        split(&mut cells, lengths)
            .into_par_iter()
            .zip(pairs)
            .for_each(|(cells, &(conditions, explained))| {
                let words = explained.iter();
                let word_pairs = words.flat_map(|&word| conditions.iter().map(move |&e| (e, word)));
                for (cell, (e, word)) in cells.iter_mut().zip(word_pairs) {
                    *cell = cooccurrences.index_of(e, word);
                }
            });
        Self {
            pairs,
            cooccurrences: Arc::new(cooccurrences),
            cells,
            sizes,
        }
    }

    /// Learns a table from the pairs for whose indices `is_learned` is true.
    pub(super) fn learn(&self, is_learned: impl Fn(usize) -> bool) -> Table {
        let num_words = self.sizes[1];
        let mut counts = vec![0_u64; num_words];
        for (_, explained) in self.selected(&is_learned).map(|(pair, _)| pair) {
            for &word in *explained {
                counts[word as usize] += 1;
            }
        }
        let num_types = counts.iter().filter(|&&count| count > 0).count();
        let uniform = 1.0 / num_types.max(1) as f64;
        let mut probabilities = vec![uniform; self.cooccurrences.words.len()];
        let mut expected = vec![0.0; self.cooccurrences.words.len()];
        let mut null = vec![uniform; num_words];
        for _ in 0..ROUNDS {
            expected.fill(0.0);
            let mut null_counts = vec![0.0; num_words];
            for ((conditions, explained), cells) in self.selected(&is_learned) {
                for (&word, row) in explained.iter().zip(cells.chunks(conditions.len())) {
                    let null = null[word as usize];
                    let sum: f64 = row.iter().map(|&cell| probabilities[cell as usize]).sum();
                    let scale = 1.0 / (null + sum);
                    null_counts[word as usize] += null * scale;
                    for &cell in row {
                        expected[cell as usize] += probabilities[cell as usize] * scale;
                    }
                }
            }
            self.normalize(&expected, &mut probabilities);
            let all: f64 = null_counts.iter().sum::<f64>() + NULL_SMOOTHING * num_types as f64;
            for (null, count) in null.iter_mut().zip(null_counts) {
                *null = (count + NULL_SMOOTHING) / all;
            }
        }
        let all = counts.iter().sum::<u64>() as f64 + SMOOTHING * num_types as f64;
        let frequency = |&count: &u64| match count {
            0 => 0.0,
            _ => (count as f64 + SMOOTHING) / all,
        };
        let weight = |&count: &u64| count as f64 / (count as f64 + HALF_WEIGHT_COUNT);
        Table {
            cooccurrences: Arc::clone(&self.cooccurrences),
            probabilities: probabilities
                .into_iter()
                .map(|share| share as f32)
                .collect(),
            frequencies: counts.iter().map(frequency).collect(),
            weights: counts.iter().map(weight).collect(),
        }
    }

    /// The pairs that are learned from, each with its part of the cells.
    fn selected(
        &self,
        is_learned: &impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (&Words<'a>, &[u32])> {
        let mut end = 0;
        let parts = self.pairs.iter().map(move |pair| {
            let start = end;
            end += num_cells(*pair);
            (pair, &self.cells[start..end])
        });
        let parts = parts.enumerate();
        parts.filter_map(|(index, part)| is_learned(index).then_some(part))
    }

    /// Makes probabilities of expected counts.
    fn normalize(&self, counts: &[f64], probabilities: &mut [f64]) {
        for row in self.cooccurrences.starts.windows(2) {
            let range = row[0]..row[1];
            let sum: f64 = counts[range.clone()].iter().sum();
            for index in range {
                probabilities[index] = counts[index] / (sum + SHRINKAGE);
            }
        }
    }
}

/// Returns the number of words of one side of a pair beside those of the other.
pub(super) fn num_cells((conditions, explained): Words) -> usize {
    conditions.len() * explained.len()
}

impl Table {
    /// Weighs a word by those of the other side; `None` if the table has not seen it.
    fn word_evidence(&self, conditions: &[u32], word: u32) -> Option<WordEvidence> {
        let frequency = self.frequencies[word as usize];
        if word == UNKNOWN || frequency == 0.0 {
            return None;
        }
        let mut all = 0.0;
        let mut most = 0.0_f64;
        for &condition in conditions.iter().filter(|&&condition| condition != UNKNOWN) {
            if let Some(index) = self.cooccurrences.find(condition, word) {
                let probability = f64::from(self.probabilities[index]);
                all += probability;
                most = most.max(probability);
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
        let bitext = Bitext::new(&pairs, [12, 12]);
        let table = bitext.learn(|_| true);
        let right = table.evidence((&[1, 2], &[2, 1]));
        let wrong = table.evidence((&[1, 4], &[2, 3]));
        assert!(right.mean > 0.5 && wrong.mean < -0.5, "{right:?} {wrong:?}");
        assert!(
            right.uncovered == 0.0 && wrong.uncovered > 0.5,
            "{right:?} {wrong:?}"
        );
        assert_eq!(wrong.num_known, 2);
        assert!((0.45..0.5).contains(&wrong.longest), "{wrong:?}");
        // A word that was seen once says a third of what a frequent one says.
        let once: Vec<Words> = pairs
            .iter()
            .copied()
            .chain([(&[11][..], &[11][..])])
            .collect();
        let bitext = Bitext::new(&once, [12, 12]);
        let rare = bitext.learn(|_| true).evidence((&[1], &[11]));
        assert!(
            (rare.uncovered - (1.0 / 3.0) / (1.0 / 3.0 + 0.5)).abs() < 1e-9,
            "{rare:?}"
        );
        // A table equals one that is learned from those pairs only.
        let of_others = bitext.learn(|index| index != pairs.len());
        assert_eq!(of_others.evidence((&[1, 4], &[2, 3])), wrong);
        assert_eq!(of_others.evidence((&[11], &[11])), Evidence::default());
        // Unknown words say nothing.
        let nothing = table.evidence((&[1], &[UNKNOWN, 11]));
        assert_eq!(nothing, Evidence::default());
    }
}
