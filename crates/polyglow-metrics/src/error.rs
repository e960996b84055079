//! What can be wrong with the input of a metric.

use thiserror::Error;

/// Why no score could be computed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// There is no hypothesis to score.
    #[error("there are no hypotheses to score")]
    NoHypotheses,
    /// There is no reference stream to compare with.
    #[error("there are no references to compare with")]
    NoReferences,
    /// A reference stream does not have one line per hypothesis.
    #[error("reference {stream} has {references} lines, but there are {hypotheses} hypotheses")]
    LengthMismatch {
        /// Which reference stream, counted from one.
        stream: usize,
        /// Lines in that stream.
        references: usize,
        /// Lines in the hypotheses.
        hypotheses: usize,
    },
    /// All n-gram orders of a metric are zero, so there is nothing to count.
    #[error("the highest n-gram order must be at least 1")]
    NoNgramOrder,
    /// An n-gram order for which the counts would not fit into memory.
    #[error("the highest n-gram order must be at most {limit}, but it is {order}")]
    NgramOrderTooHigh {
        /// The order given.
        order: usize,
        /// The highest one accepted.
        limit: usize,
    },
    /// A smoothing value below zero or not finite, for which the logarithm of a precision is not defined.
    #[error("the smoothing value must be a finite number not below 0, but it is {value}")]
    InvalidSmoothingValue {
        /// The value given.
        value: f64,
    },
    /// Two systems to compare do not have the same segments.
    #[error("the baseline has {baseline} lines, but the system has {system}")]
    UnpairedSystems {
        /// Segments of the baseline.
        baseline: usize,
        /// Segments of the other system.
        system: usize,
    },
    /// A resampling test without a sample.
    #[error("the number of samples must be at least 1")]
    NoSamples,
    /// A name that no tokenizer has.
    #[error("there is no tokenizer `{name}`; there are `13a`, `intl`, `char`, `zh` and `none`")]
    UnknownTokenizer {
        /// The name given.
        name: String,
    },
    /// A name that no smoothing method has.
    #[error("there is no smoothing method `{name}`; there are `exp`, `floor`, `add-k` and `none`")]
    UnknownSmoothing {
        /// The name given.
        name: String,
    },
}
