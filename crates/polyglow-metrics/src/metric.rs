//! From two streams of lines to counted segments to scores, the same way for every metric.

use rayon::prelude::*;

use crate::arithmetic::{Arithmetic, ResampledScore};
use crate::error::MetricError;
use crate::score::Score;
use crate::signature::Signature;
use crate::statistics::Statistics;

/// A metric: how to count one segment, and how to score summed counts.
pub trait Metric: Sync {
    /// The score with its details.
    type Score: Score + Send;

    /// Checks the options.
    ///
    /// # Errors
    /// If no score is defined for them.
    fn validate(&self) -> Result<(), MetricError>;

    /// Counts one segment against its references, of which there is at least one.
    fn count_segment(&self, hypothesis: &str, references: &[&str]) -> Vec<f64>;

    /// Scores the sum of the rows of any number of segments.
    fn score(&self, sums: &[f64]) -> Self::Score;

    /// Scores the sum of resampled rows, rounding as numpy does.
    fn resampled_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore;

    /// The signature of a score against this many references per segment.
    fn signature(&self, num_references: usize) -> Signature;
}

/// Scores a corpus: the segments' counts are added before they are scored.
///
/// `references` holds one stream per reference; each stream has one line per hypothesis.
///
/// # Errors
/// If there is nothing to score, a stream has another number of lines, or the options are not valid.
pub fn corpus_score<M: Metric>(
    metric: &M,
    hypotheses: &[impl AsRef<str> + Sync],
    references: &[Vec<impl AsRef<str> + Sync>],
) -> Result<M::Score, MetricError> {
    Ok(metric.score(&segment_statistics(metric, hypotheses, references)?.sum()))
}

/// Scores each segment as a corpus of its own.
///
/// # Errors
/// As [`corpus_score`].
pub fn sentence_scores<M: Metric>(
    metric: &M,
    hypotheses: &[impl AsRef<str> + Sync],
    references: &[Vec<impl AsRef<str> + Sync>],
) -> Result<Vec<M::Score>, MetricError> {
    let statistics = segment_statistics(metric, hypotheses, references)?;
    Ok(statistics.rows().map(|row| metric.score(row)).collect())
}

/// Counts each segment, all cores at work, the rows in the order of the segments.
///
/// # Errors
/// As [`corpus_score`].
pub fn segment_statistics<M: Metric>(
    metric: &M,
    hypotheses: &[impl AsRef<str> + Sync],
    references: &[Vec<impl AsRef<str> + Sync>],
) -> Result<Statistics, MetricError> {
    metric.validate()?;
    let lengths: Vec<usize> = references.iter().map(Vec::len).collect();
    check_streams(hypotheses.len(), &lengths)?;
    let count = |(index, hypothesis): (usize, &_)| {
        let references: Vec<&str> = references.iter().map(|stream| stream[index].as_ref()).collect();
        metric.count_segment(AsRef::as_ref(hypothesis), &references)
    };
    let rows: Vec<_> = hypotheses.par_iter().enumerate().map(count).collect();
    Statistics::from_rows(&rows).ok_or(MetricError::NoNgramOrder)
}

/// Checks that there is something to score and that each reference stream has a line for each hypothesis.
pub(crate) fn check_streams(hypotheses: usize, streams: &[usize]) -> Result<(), MetricError> {
    if hypotheses == 0 {
        return Err(MetricError::NoHypotheses);
    }
    if streams.is_empty() {
        return Err(MetricError::NoReferences);
    }
    match streams.iter().position(|&lines| lines != hypotheses) {
        None => Ok(()),
        Some(index) => Err(MetricError::LengthMismatch { stream: index + 1, references: streams[index], hypotheses }),
    }
}
