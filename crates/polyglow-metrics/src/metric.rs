//! From lines of hypotheses and references to counts of segments to scores, the same way for every
//! metric.

use rayon::prelude::*;

use crate::error::MetricError;
use crate::python::arithmetic::{Arithmetic, ResampledScore};
use crate::score::Score;
use crate::signature::Signature;
use crate::statistics::Statistics;

/// A metric: it counts one segment at a time, and scores summed counts.
///
/// Implemented by the options of each metric: [`BleuOptions`](crate::BleuOptions),
/// [`ChrfOptions`](crate::ChrfOptions) and [`TerOptions`](crate::TerOptions).
pub trait Metric: Sync {
    /// The score with its details.
    type Score: Score + Send;

    /// Checks the options.
    ///
    /// # Errors
    /// The options leave no score defined.
    fn validate(&self) -> Result<(), MetricError>;

    /// Counts one segment against its references, of which there is at least one.
    fn count_segment(&self, hypothesis: &str, references: &[&str]) -> Vec<f64>;

    /// Scores the sum of the rows of any number of segments.
    fn score(&self, sums: &[f64]) -> Self::Score;

    /// Scores the sum of resampled rows, rounding as numpy does with numbers of this type.
    fn resampled_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore;

    /// The signature of a score against this many references per segment.
    fn signature(&self, num_references: usize) -> Signature;
}

/// Scores a corpus: the segments' counts are added before they are scored.
///
/// `references` holds one stream per reference; each stream has one line per hypothesis.
///
/// ```
/// use polyglow_metrics::{BleuOptions, corpus_score};
///
/// let hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
/// let references = [
///     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
///     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
/// ];
/// let score = corpus_score(&BleuOptions::default(), &hypotheses, &references)?;
/// assert_eq!(format!("{:.2}", score.score), "48.53");
/// assert_eq!((score.hypothesis_len, score.reference_len), (17, 18));
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
///
/// # Errors
/// There is nothing to score, a stream has another number of lines, or the options are not valid.
pub fn corpus_score<M: Metric>(
    metric: &M,
    hypotheses: &[impl AsRef<str> + Sync],
    references: &[Vec<impl AsRef<str> + Sync>],
) -> Result<M::Score, MetricError> {
    Ok(metric.score(&segment_statistics(metric, hypotheses, references)?.sum()))
}

/// Scores each segment as a corpus of its own. The mean of these scores is not the score of the
/// corpus.
///
/// ```
/// use polyglow_metrics::{BleuOptions, sentence_scores};
///
/// let hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
/// let references = [
///     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
///     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
/// ];
/// let options = BleuOptions { effective_order: true, ..BleuOptions::default() };
/// let scores = sentence_scores(&options, &hypotheses, &references)?;
/// let rounded: Vec<String> = scores.iter().map(|score| format!("{:.2}", score.score)).collect();
/// assert_eq!(rounded, ["100.00", "14.79", "29.07"]);
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
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

/// Counts each segment, in parallel on rayon's threads; the rows are in the order of the segments.
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
    let segments = hypotheses.par_iter().enumerate();
    let rows: Vec<Vec<f64>> = segments
        .map(|(index, hypothesis)| {
            let references: Vec<&str> = references
                .iter()
                .map(|stream| stream[index].as_ref())
                .collect();
            metric.count_segment(hypothesis.as_ref(), &references)
        })
        .collect();
    Statistics::from_rows(&rows).ok_or(MetricError::NoNgramOrder)
}

/// Checks that there is something to score and that each reference stream has a line for each
/// hypothesis.
pub(crate) fn check_streams(hypotheses: usize, streams: &[usize]) -> Result<(), MetricError> {
    if hypotheses == 0 {
        return Err(MetricError::NoHypotheses);
    }
    if streams.is_empty() {
        return Err(MetricError::NoReferences);
    }
    match streams.iter().position(|&lines| lines != hypotheses) {
        None => Ok(()),
        Some(index) => Err(MetricError::LengthMismatch {
            stream: index + 1,
            references: streams[index],
            hypotheses,
        }),
    }
}
