//! Training data of word vectors: skip-gram with negative sampling (Mikolov et al., 2013,
//! "Distributed representations of words and phrases and their compositionality").

use serde::{Deserialize, Serialize};

use crate::random::{Purpose, below, mix, unit};
use crate::special::SpecialIds;

/// The table `[data.words]`: from which words the model learns, and from how many.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkipGrams {
    /// Words on each side of a word that may be its context; how many are is drawn for each word,
    /// from 1 to this; default 5.
    pub window: usize,
    /// Words drawn from the noise for each word of the context; default 5.
    pub negatives: usize,
    /// Share of the text up to which all occurrences of a word are kept; of more frequent words
    /// some are left out; 0 for no limit; default 0.001.
    pub subsample: f64,
}

/// A word, a word from its context, and noise words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipGram {
    /// The word.
    pub center: u32,
    /// The context word, followed by the noise words.
    pub candidates: Vec<u32>,
}

/// Draws [`SkipGram`]s from a text by its word frequencies.
#[derive(Debug, Clone)]
pub struct SkipGramSampler {
    config: SkipGrams,
    /// For each id, the probability that an occurrence is kept.
    keep: Vec<f64>,
    /// For each id, the cumulative noise weight up to and including it.
    noise: Vec<f64>,
    unk: u32,
}

// The second part of a key whose first part is the bits of `Purpose::SkipGrams` for a line: the use
// of the number that is drawn.
const KEEP: u64 = 0;
const REACH: u64 = 1;
const NOISE: u64 = 2;

/// Noise words are drawn by their frequencies to this power (section 2.2).
const FLATTENING: f64 = 0.75;
/// Attempts to draw a noise word other than the context word. With a vocabulary of one word there
/// is no other.
const MOST_DRAWS: u64 = 64;

impl Default for SkipGrams {
    /// The defaults of the original word2vec.
    fn default() -> Self {
        Self {
            window: 5,
            negatives: 5,
            subsample: 1e-3,
        }
    }
}

impl SkipGrams {
    /// Maximum number of rows that a line with this many words gives.
    pub fn most_pairs(&self, words: usize) -> usize {
        // For each distance from 1 to the window, all pairs of words at that distance, in both
        // directions.
        (1..=self.window.min(words.saturating_sub(1)))
            .map(|distance| 2 * (words - distance))
            .sum()
    }

    /// Number of candidates in a row: the context word and the noise words.
    pub fn candidates(&self) -> usize {
        1 + self.negatives
    }
}

impl SkipGramSampler {
    /// Counts the ids of `lines`. Unknown words are left out: they are neither words nor context.
    ///
    /// # Errors
    /// The first error of `lines`.
    pub fn count<E>(
        config: SkipGrams,
        special: SpecialIds,
        vocab_size: usize,
        lines: impl IntoIterator<Item = Result<Vec<u32>, E>>,
    ) -> Result<Self, E> {
        let mut counts = vec![0u64; vocab_size];
        for ids in lines {
            ids?.into_iter()
                .filter(|&id| id != special.unk)
                .for_each(|id| counts[id as usize] += 1);
        }
        let total = counts.iter().sum::<u64>() as f64;
        let mut keep = Vec::with_capacity(vocab_size);
        let mut noise = Vec::with_capacity(vocab_size);
        let mut noise_sum = 0.0;
        for count in counts {
            keep.push(keep_probability(count as f64 / total, config.subsample));
            noise_sum += (count as f64).powf(FLATTENING);
            noise.push(noise_sum);
        }
        Ok(Self {
            config,
            keep,
            noise,
            unk: special.unk,
        })
    }

    /// Draws the rows of a line: a pure function of the line and of `key`.
    ///
    /// Occurrences of frequent words are removed before the context is determined, so it reaches
    /// farther in the line.
    pub fn rows(&self, ids: &[u32], key: &[u64]) -> Vec<SkipGram> {
        let key = Purpose::SkipGrams.mix(&[mix(key)]);
        let words = self.subsample(ids, key);
        let mut rows = Vec::new();
        for (index, &center) in words.iter().enumerate() {
            let reach =
                1 + below(mix(&[key, REACH, index as u64]), self.config.window as u64) as usize;
            let around = index.saturating_sub(reach)..(index + reach + 1).min(words.len());
            for neighbor in around.filter(|&neighbor| neighbor != index) {
                let context = words[neighbor];
                let pair = mix(&[key, NOISE, index as u64, neighbor as u64]);
                let noise = (0..self.config.negatives as u64)
                    .map(|number| self.draw(context, [pair, number]));
                rows.push(SkipGram {
                    center,
                    candidates: [context].into_iter().chain(noise).collect(),
                });
            }
        }
        rows
    }

    /// Drops unknown words, and at random some of the frequent ones.
    fn subsample(&self, ids: &[u32], key: u64) -> Vec<u32> {
        let mut words = Vec::new();
        for (index, &id) in ids.iter().enumerate() {
            if id != self.unk && unit(mix(&[key, KEEP, index as u64])) < self.keep[id as usize] {
                words.push(id);
            }
        }
        words
    }

    /// Returns a placeholder for lines that give no rows, so that no batch is empty: the unknown
    /// word with itself as candidates.
    pub fn nothing(&self) -> SkipGram {
        SkipGram {
            center: self.unk,
            candidates: vec![self.unk; self.config.candidates()],
        }
    }

    /// Draws a noise word other than `context`.
    fn draw(&self, context: u32, key: [u64; 2]) -> u32 {
        let total = self.noise.last().copied().unwrap_or(0.0);
        for attempt in 0..MOST_DRAWS {
            let target = unit(mix(&[key[0], key[1], attempt])) * total;
            // The word whose interval of the cumulative weights has the target.
            let word = self.noise.partition_point(|&sum| sum <= target);
            let id = word.min(self.noise.len() - 1) as u32;
            if id != context {
                return id;
            }
        }
        self.unk
    }
}

/// The probability that an occurrence of a word is kept, which is `share` of the text (equation 5).
fn keep_probability(share: f64, subsample: f64) -> f64 {
    // The share of a word that does not occur is 0, or NaN in an empty text.
    if subsample > 0.0 && share > 0.0 {
        (subsample / share).sqrt()
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds {
        pad: 0,
        bos: 1,
        eos: 2,
        unk: 3,
    };

    fn sampler(config: SkipGrams, lines: &[&[u32]]) -> SkipGramSampler {
        let lines = lines.iter().map(|ids| Ok::<_, ()>(ids.to_vec()));
        SkipGramSampler::count(config, SPECIAL, 9, lines).unwrap()
    }

    const ALL: SkipGrams = SkipGrams {
        window: 2,
        negatives: 3,
        subsample: 0.0,
    };

    #[test]
    fn a_row_is_a_word_and_one_within_reach() {
        let line = [4, 5, 3, 6, 7];
        let sampler = sampler(ALL, &[&line]);
        let mut seen = std::collections::BTreeSet::new();
        for epoch in 0..50 {
            let rows = sampler.rows(&line, &[1, epoch]);
            assert_eq!(rows, sampler.rows(&line, &[1, epoch]));
            // Every word is paired with its direct neighbors, across the unknown word.
            for pair in [(4, 5), (5, 4), (5, 6), (6, 5), (6, 7), (7, 6)] {
                assert!(
                    rows.iter()
                        .any(|row| (row.center, row.candidates[0]) == pair)
                );
            }
            assert!(rows.len() <= ALL.most_pairs(4));
            seen.extend(rows.iter().map(|row| (row.center, row.candidates[0])));
            for SkipGram { candidates, .. } in rows {
                assert_eq!(candidates.len(), 4);
                assert!(
                    candidates[1..]
                        .iter()
                        .all(|id| *id != candidates[0] && (4..8).contains(id))
                );
            }
        }
        // Pairs at a distance of two occur, but not of three.
        assert_eq!(seen.len(), ALL.most_pairs(4));
        assert!(seen.contains(&(4, 6)) && !seen.contains(&(4, 7)));
    }

    #[test]
    fn the_most_pairs_are_those_of_a_full_reach() {
        let most = |window, words| SkipGrams { window, ..ALL }.most_pairs(words);
        assert_eq!(
            [most(2, 0), most(2, 1), most(2, 2), most(2, 4), most(9, 4)],
            [0, 0, 2, 10, 12]
        );
    }

    #[test]
    fn noise_follows_the_frequencies_to_the_power_of_three_quarters() {
        // 16 times as frequent is 8 times as probable.
        let line = [vec![4; 16], vec![5]].concat();
        let sampler = sampler(ALL, &[&line]);
        let draws = 20_000;
        let rare = (0..draws)
            .filter(|&number| sampler.draw(6, [7, number]) == 5)
            .count();
        let share = rare as f64 / draws as f64;
        // Three standard deviations.
        assert!(
            (share - 1.0 / 9.0).abs() < 3.0 * (8.0 / 81.0 / draws as f64).sqrt(),
            "{share}"
        );
    }

    #[test]
    fn frequent_words_are_left_out_by_the_root_of_their_frequency() {
        let line = [vec![4; 90], vec![5; 10]].concat();
        let config = SkipGrams {
            subsample: 0.1,
            ..ALL
        };
        let sampler = sampler(config, &[&line]);
        let kept = (0..200)
            .flat_map(|epoch| sampler.rows(&[4, 5], &[epoch]))
            .count() as f64
            / 2.0
            / 200.0;
        // Word 5 is always kept, word 4 with the probability of sqrt(0.1 / 0.9) = 1/3, and a pair
        // has two rows.
        assert!(
            (kept - 1.0 / 3.0).abs() < 3.0 * (2.0f64 / 9.0 / 200.0).sqrt(),
            "{kept}"
        );
    }

    #[test]
    fn lines_without_neighbors_give_no_rows() {
        let sampler = sampler(ALL, &[&[4]]);
        assert!(sampler.rows(&[], &[1]).is_empty() && sampler.rows(&[4], &[1]).is_empty());
        // With a single word there is no other noise word to draw.
        assert_eq!(sampler.rows(&[4, 4], &[1])[0].candidates, [4, 3, 3, 3]);
        assert_eq!(sampler.nothing().candidates, [3, 3, 3, 3]);
    }
}
