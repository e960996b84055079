//! The features of a pair, from which heads learn to tell translations from noise.

use super::surface::Surface;
use super::table::{Bitext, Table, Words};
use super::vocabulary::Vocabulary;

/// The number of features of a pair.
pub(super) const NUM_FEATURES: usize = 16;

/// The features of a pair: evidence of words both ways (8), length (2), and signs (6).
pub(super) type Features = [f64; NUM_FEATURES];

/// The largest deviation of a length that counts.
const MOST_DEVIATION: f64 = 8.0;
/// Bins of source lengths, half an octave each.
const BINS: usize = 31;
/// Pairs from which the usual length of a bin is learned.
const FEW: usize = 200;
/// A constant that is added to spreads, so that none is 0.
const LEAST_SPREAD: f64 = 0.02;
/// The standard deviation of a normal distribution, in medians of absolute deviations.
const NORMAL: f64 = 1.4826;

/// One side of a pair as heads read it.
pub(super) struct Side {
    pub(super) text: String,
    pub(super) words: Vec<u32>,
    pub(super) surface: Surface,
}

impl Side {
    /// Reads a text with the words of a vocabulary.
    pub(super) fn encode(text: String, vocabulary: &Vocabulary) -> Self {
        let words = vocabulary.encode(&text);
        Self::new(text, words)
    }

    pub(super) fn new(text: String, words: Vec<u32>) -> Self {
        let surface = Surface::new(&text);
        Self {
            text,
            words,
            surface,
        }
    }
}

/// Word tables for one fold of the pairs, learned from the other folds: a table that has seen a
/// pair would explain it by itself.
pub(super) struct Fold {
    tables: [Table; 2],
}

impl Fold {
    /// Learns all folds from the words of pairs, of vocabularies of the two sizes; `folds` has the
    /// fold of each pair, below `num_folds`.
    pub(super) fn learn_all(
        pairs: &[Words],
        folds: &[usize],
        num_folds: usize,
        [src, tgt]: [usize; 2],
    ) -> Vec<Self> {
        let reversed: Vec<Words> = pairs.iter().map(|&(src, tgt)| (tgt, src)).collect();
        let forward = Bitext::new(pairs, [src, tgt]);
        let backward = Bitext::new(&reversed, [tgt, src]);
        let learn = |fold: usize| {
            let is_other = |index: usize| folds[index] != fold;
            let (forward, backward) =
                rayon::join(|| forward.learn(is_other), || backward.learn(is_other));
            Self {
                tables: [forward, backward],
            }
        };
        // One after the other: what is counted while a table is learned takes much memory.
        (0..num_folds).map(learn).collect()
    }

    /// Measures a pair.
    pub(super) fn features(&self, src: &Side, tgt: &Side, lengths: &Lengths) -> Features {
        let forward = self.tables[0].evidence((&src.words, &tgt.words));
        let backward = self.tables[1].evidence((&tgt.words, &src.words));
        let deviation = lengths.deviation(src.words.len(), tgt.words.len());
        let [end, question, more_tgt, more_src, commas, numbers] =
            src.surface.differences(&tgt.surface);
        [
            forward.mean,
            backward.mean,
            forward.uncovered,
            backward.uncovered,
            forward.longest,
            backward.longest,
            (forward.num_known as f64).ln_1p(),
            (backward.num_known as f64).ln_1p(),
            deviation.max(0.0),
            (-deviation).max(0.0),
            end,
            question,
            more_tgt,
            more_src,
            commas,
            numbers,
        ]
    }
}

/// The usual length of translations: the median and spread of ln((target + 2) / (source + 2)), in
/// words, by the length of the source.
pub(super) struct Lengths {
    bins: Vec<(f64, f64)>,
}

impl Lengths {
    /// Learns from the lengths of the sides of pairs.
    pub(super) fn learn(lengths: &[(usize, usize)]) -> Self {
        let mut by_bin: Vec<Vec<f64>> = vec![Vec::new(); BINS];
        for &(src, tgt) in lengths {
            by_bin[bin(src)].push(ratio(src, tgt));
        }
        let all = spread(by_bin.concat());
        let of_bin = |index: usize| {
            let neighbors = &by_bin[index.saturating_sub(1)..(index + 2).min(BINS)];
            let ratios = neighbors.concat();
            if ratios.len() < FEW {
                all
            } else {
                spread(ratios)
            }
        };
        Self {
            bins: (0..BINS).map(of_bin).collect(),
        }
    }

    /// Returns how many standard deviations a target is longer than usual.
    fn deviation(&self, src: usize, tgt: usize) -> f64 {
        let (median, spread) = self.bins[bin(src)];
        ((ratio(src, tgt) - median) / spread).clamp(-MOST_DEVIATION, MOST_DEVIATION)
    }
}

fn bin(src: usize) -> usize {
    let bin = ((src + 2) as f64).log2() * 2.0;
    (bin as usize).min(BINS - 1)
}

fn ratio(src: usize, tgt: usize) -> f64 {
    ((tgt + 2) as f64 / (src + 2) as f64).ln()
}

/// Returns the median and the spread of values.
fn spread(mut values: Vec<f64>) -> (f64, f64) {
    let center = median(&mut values);
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    (center, NORMAL * median(&mut deviations) + LEAST_SPREAD)
}

/// Returns the median, 0 of nothing.
fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_deviate_from_what_is_usual_for_their_source() {
        let pairs: Vec<(usize, usize)> = (0..900)
            .map(|index| (5 + index % 3, 10 + index % 3 * 2 + index % 2))
            .collect();
        let lengths = Lengths::learn(&pairs);
        assert!(lengths.deviation(6, 12).abs() < 1.0);
        assert!(lengths.deviation(6, 5) < -3.0 && lengths.deviation(6, 40) > 3.0);
        // Nothing is known of long sentences but what holds for all.
        assert!(lengths.deviation(100, 200).abs() < 2.0);
    }
}
