//! The number types in which numpy computes resampled scores, without which p-values differ in
//! their last digits.

/// The number type of the counts that a score is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `float64`, Python's `float`, for every score that is not resampled.
    Double,
    /// `float32`, in which sacreBLEU keeps the counts of bootstrap resamples. Under numpy 2 every
    /// operation on them is rounded to `float32` too.
    Single,
    /// `int64`, in which it adds the counts of a randomization test. What smoothing adds to them
    /// loses its fraction.
    Integer,
}

/// A score of resampled counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResampledScore {
    /// The score.
    pub value: f64,
    /// Whether it is a `float32` in sacreBLEU, and not a Python `float`.
    pub single: bool,
}

impl Arithmetic {
    /// Rounds the result of one operation.
    ///
    /// For `+ - * /` on two `f32`, rounding the `f64` result gives the `f32` result, since 53 bits
    /// ≥ 2 · 24 + 2.
    pub(crate) fn round(self, value: f64) -> f64 {
        match self {
            Self::Single => f64::from(value as f32),
            Self::Double | Self::Integer => value,
        }
    }

    /// Adds a smoothing value to a count.
    pub(crate) fn add_to_count(self, count: f64, value: f64) -> f64 {
        match self {
            Self::Integer => (count + value).trunc(),
            Self::Double | Self::Single => self.round(count + value),
        }
    }

    /// A score computed in this arithmetic.
    pub(crate) fn score(self, value: f64) -> ResampledScore {
        ResampledScore {
            value,
            single: self == Self::Single,
        }
    }
}
