//! The scores of resampled corpora, and their mean and interval as numpy rounds them.

use std::fmt;

use crate::python::arithmetic::{Arithmetic, ResampledScore};

/// The interval of the scores of resampled corpora.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// The mean of the resampled scores.
    pub mean: f64,
    /// Half the width of the interval that holds 95 % of them.
    pub half_width: f64,
}

impl fmt::Display for Confidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = formatter.precision().unwrap_or(2);
        write!(
            formatter,
            "μ = {:.width$} ± {:.width$}",
            self.mean, self.half_width
        )
    }
}

/// The scores of resamples, in the number type that numpy gives an array of them.
///
/// One `float64` among `float32` makes the whole array `float64`.
pub(super) struct Scores {
    values: Vec<f64>,
    arithmetic: Arithmetic,
}

impl Scores {
    pub(super) fn new(scores: &[ResampledScore]) -> Self {
        let single = scores.iter().all(|score| score.single);
        let arithmetic = if single {
            Arithmetic::Single
        } else {
            Arithmetic::Double
        };
        Self {
            values: scores.iter().map(|score| score.value).collect(),
            arithmetic,
        }
    }

    /// The absolute differences, pair by pair.
    pub(super) fn abs_differences(&self, other: &Self) -> Self {
        let both_single = [self.arithmetic, other.arithmetic] == [Arithmetic::Single; 2];
        let arithmetic = if both_single {
            Arithmetic::Single
        } else {
            Arithmetic::Double
        };
        let pairs = self.values.iter().zip(&other.values);
        let values = pairs
            .map(|(ours, theirs)| arithmetic.round(ours - theirs).abs())
            .collect();
        Self { values, arithmetic }
    }

    /// The scores less their mean.
    pub(super) fn centered(&self) -> Self {
        let mean = self.mean();
        let values = self
            .values
            .iter()
            .map(|value| self.round(value - mean))
            .collect();
        Self {
            values,
            arithmetic: self.arithmetic,
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = f64> {
        self.values.iter().copied()
    }

    /// Rounds a value to the number type of these.
    pub(super) fn round(&self, value: f64) -> f64 {
        self.arithmetic.round(value)
    }

    /// The mean as numpy computes it.
    fn mean(&self) -> f64 {
        let sum = pairwise_sum(&self.values, self.arithmetic);
        self.round(sum / self.values.len() as f64)
    }

    /// The mean as Python's `statistics.mean` computes it: exact sums, rounded only once.
    pub(super) fn exact_mean(&self) -> f64 {
        let mut sum = 0.0_f64;
        let mut error = 0.0;
        for &value in &self.values {
            let next = sum + value;
            // Neumaier's compensation: the part of the smaller of the two that the sum has lost.
            error += if sum.abs() >= value.abs() {
                (sum - next) + value
            } else {
                (value - next) + sum
            };
            sum = next;
        }
        self.round((sum + error) / self.values.len() as f64)
    }

    /// The mean, and the interval that leaves out a fortieth of the scores at each end, as
    /// sacreBLEU's `estimate_ci`.
    pub(super) fn confidence(&self) -> Confidence {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let lower = sorted.len() / 40;
        let upper = sorted.len() - lower - 1;
        let width = self.round(sorted[upper] - sorted[lower]);
        let sorted = Self {
            values: sorted,
            arithmetic: self.arithmetic,
        };
        Confidence {
            mean: sorted.mean(),
            half_width: 0.5 * width,
        }
    }
}

/// Adds in numpy's order: halves of long arrays, and eight interleaved sums within blocks of 128.
fn pairwise_sum(values: &[f64], arithmetic: Arithmetic) -> f64 {
    let add = |left: f64, right: f64| arithmetic.round(left + right);
    if values.len() < 8 {
        return values.iter().fold(-0.0, |sum, &value| add(sum, value));
    }
    if values.len() > 128 {
        let middle = values.len() / 2 / 8 * 8;
        let (left, right) = values.split_at(middle);
        let left = pairwise_sum(left, arithmetic);
        let right = pairwise_sum(right, arithmetic);
        return add(left, right);
    }
    let (blocks, rest) = values.as_chunks::<8>();
    let mut sums = [-0.0; 8];
    for block in blocks {
        sums = std::array::from_fn(|lane| add(sums[lane], block[lane]));
    }
    let pairs: [f64; 4] = std::array::from_fn(|pair| add(sums[2 * pair], sums[2 * pair + 1]));
    let sum = add(add(pairs[0], pairs[1]), add(pairs[2], pairs[3]));
    rest.iter().fold(sum, |sum, &value| add(sum, value))
}
