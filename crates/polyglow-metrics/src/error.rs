//! The errors of metrics, for input that cannot be scored.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use crate::tokenizer::TokenizerName;

/// The reason why no score could be computed.
///
/// With [`Debug`](fmt::Debug) it is displayed as well: that is what a program prints whose `main`
/// returns it.
#[derive(Clone, PartialEq, Error)]
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
        /// The number of the reference stream, counted from one.
        stream: usize,
        /// Lines in that stream.
        references: usize,
        /// Lines in the hypotheses.
        hypotheses: usize,
    },
    /// A sentence does not have as many tags in the hypothesis as in the reference.
    #[error(
        "sentence {sentence} has {hypothesis} tags in the hypothesis, but {reference} in the reference"
    )]
    UnpairedTags {
        /// The number of the sentence, counted from one.
        sentence: usize,
        /// Tags in the hypothesis.
        hypothesis: usize,
        /// Tags in the reference.
        reference: usize,
    },
    /// A tag without a character.
    #[error("the tag of token {token} in sentence {sentence} is empty")]
    EmptyTag {
        /// The number of the sentence, counted from one.
        sentence: usize,
        /// The number of the token in the sentence, counted from one.
        token: usize,
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
    /// A smoothing value below zero or not finite, for which the logarithm of a precision is not
    /// defined.
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
    #[error(
        "there is no tokenizer `{name}`; there are `13a`, `intl`, `char`, `zh`, `ja-mecab`, `ko-mecab`, `flores101`, \
             `flores200`, `none`, and `auto`, which chooses one"
    )]
    UnknownTokenizer {
        /// The name given.
        name: String,
    },
    /// A tokenizer that was not given the file that it needs.
    #[error("the tokenizer `{tokenizer}` needs {what}, and none is given")]
    MissingFile {
        /// The tokenizer.
        tokenizer: TokenizerName,
        /// The kind of file that it needs.
        what: &'static str,
    },
    /// A file of a tokenizer that cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The message of the operating system.
        reason: String,
    },
    /// A file of a tokenizer that is damaged, or of another kind.
    #[error("`{}` is no {kind} that can be used: {problem}", path.display())]
    UnusableFile {
        /// The file.
        path: PathBuf,
        /// The kind of file that is expected.
        kind: &'static str,
        /// The reason why it cannot be used.
        problem: &'static str,
    },
    /// A dictionary that is not the one of which sacreBLEU's tokenizer is made.
    #[error("`{}` has {words} words, and the dictionary of `{tokenizer}` has {expected}: it is another one", path.display())]
    WrongDictionary {
        /// The folder of the dictionary.
        path: PathBuf,
        /// The tokenizer.
        tokenizer: TokenizerName,
        /// Words in the dictionary.
        words: u32,
        /// Words in sacreBLEU's.
        expected: u32,
    },
    /// A name that no smoothing method has.
    #[error("there is no smoothing method `{name}`; there are `exp`, `floor`, `add-k` and `none`")]
    UnknownSmoothing {
        /// The name given.
        name: String,
    },
}

impl fmt::Debug for MetricError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message() {
        let error: Box<dyn std::error::Error> = Box::new(MetricError::UnpairedSystems {
            baseline: 2,
            system: 3,
        });
        assert_eq!(
            format!("{error:?}"),
            "the baseline has 2 lines, but the system has 3"
        );
    }
}
