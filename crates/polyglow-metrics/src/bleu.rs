//! BLEU: the geometric mean of the shares of n-grams of the hypothesis that a reference contains
//! (Papineni et al., 2002; Post, 2018).

pub(crate) mod smoothing;

use std::fmt;

use self::smoothing::Smoothing;
use crate::error::MetricError;
use crate::measure::Measure;
use crate::metric::Metric;
use crate::ngram::{Vocabulary, check_orders, clipped_matches, num_ngrams};
use crate::python;
use crate::python::arithmetic::{Arithmetic, ResampledScore};
use crate::score::{Score, write_score};
use crate::signature::{Signature, case_value, switch_value};
use crate::tokenizer::Tokenizer;

/// The logarithm of a precision of zero in sacreBLEU's `my_log`. Its exponential is zero, so BLEU is
/// zero, too.
const LOG_OF_ZERO: f64 = -9_999_999_999.0;

/// The options of BLEU; the default is sacreBLEU's.
///
/// A row of its [`Statistics`](crate::Statistics) holds the hypothesis length, the closest
/// reference length (in tokens), then the matches of each order, then the hypothesis n-grams of
/// each order.
///
/// A sentence with too few matches shows what `smoothing` does:
///
/// ```
/// use polyglow_metrics::{BleuOptions, Smoothing, corpus_score};
///
/// let hypotheses = ["It wasn't surprising."];
/// let references = [vec!["It was not unexpected."], vec!["No one was surprised."]];
/// let bleu = |smoothing| {
///     let options = BleuOptions { smoothing, ..BleuOptions::default() };
///     Ok(format!("{:.2}", corpus_score(&options, &hypotheses, &references)?.score))
/// };
/// assert_eq!(bleu(Smoothing::Exp)?, "14.79");
/// assert_eq!(bleu(Smoothing::Floor(0.1))?, "7.44");
/// assert_eq!(bleu(Smoothing::None)?, "0.00");
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BleuOptions {
    /// Splits a line into tokens; `13a` by default.
    pub tokenizer: Tokenizer,
    /// The precision of an order without a match; `exp` by default.
    pub smoothing: Smoothing,
    /// Whether lines are lowercased first; off by default.
    pub lowercase: bool,
    /// Whether the mean leaves out orders longer than the hypothesis, as single sentences need; off
    /// by default.
    pub effective_order: bool,
    /// The longest n-grams counted, in tokens; 4 by default.
    pub max_order: usize,
}

impl Default for BleuOptions {
    fn default() -> Self {
        Self {
            tokenizer: Tokenizer::default(),
            smoothing: Smoothing::default(),
            lowercase: false,
            effective_order: false,
            max_order: 4,
        }
    }
}

/// BLEU with the numbers that it is computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct BleuScore {
    /// BLEU, 0 to 100.
    pub score: f64,
    /// Clipped matches of each order, before smoothing.
    pub counts: Vec<u64>,
    /// Hypothesis n-grams of each order, before smoothing.
    pub totals: Vec<u64>,
    /// Smoothed precision of each order, 0 to 100; all zero where nothing matches.
    pub precisions: Vec<f64>,
    /// The factor for hypotheses shorter than their references, 0 to 1.
    pub brevity_penalty: f64,
    /// Length of the hypotheses in tokens.
    pub hypothesis_len: u64,
    /// Length of the closest references in tokens.
    pub reference_len: u64,
}

impl Score for BleuScore {
    fn name(&self) -> String {
        Measure::BLEU.title.to_owned()
    }

    fn value(&self) -> f64 {
        self.score
    }

    fn details(&self) -> String {
        let precisions: Vec<_> = self.precisions.iter().map(|p| format!("{p:.1}")).collect();
        let ratio = match self.reference_len {
            0 => 0.0,
            reference_len => self.hypothesis_len as f64 / reference_len as f64,
        };
        format!(
            "{} (BP = {:.3} ratio = {ratio:.3} hyp_len = {} ref_len = {})",
            precisions.join("/"),
            self.brevity_penalty,
            self.hypothesis_len,
            self.reference_len
        )
    }
}

impl fmt::Display for BleuScore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_score(self, formatter)
    }
}

impl Metric for BleuOptions {
    type Score = BleuScore;

    fn validate(&self) -> Result<(), MetricError> {
        check_orders(&[self.max_order])?;
        self.smoothing.validate()
    }

    fn count_segment(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let hypothesis = self.tokenize(hypothesis);
        let references: Vec<_> = references.iter().map(|line| self.tokenize(line)).collect();
        let mut vocabulary = Vocabulary::default();
        let references: Vec<_> = references
            .iter()
            .map(|line| vocabulary.number(python::words(line)))
            .collect();
        let hypothesis = vocabulary.number(python::words(&hypothesis));
        let references: Vec<&[u32]> = references.iter().map(Vec::as_slice).collect();

        let matches = clipped_matches(&hypothesis, &references, self.max_order);
        let totals = (1..=self.max_order).map(|order| num_ngrams(hypothesis.len(), order));
        let lengths = [hypothesis.len(), closest_len(hypothesis.len(), &references)];
        let counts = lengths.into_iter().chain(matches).chain(totals);
        counts.map(|count| count as f64).collect()
    }

    fn score(&self, sums: &[f64]) -> BleuScore {
        let (lengths, counts) = sums.split_at(2);
        let (matches, totals) = counts.split_at(self.max_order);
        let brevity_penalty = brevity_penalty(lengths[0], lengths[1]);
        let (precisions, orders) = self.precisions(matches, totals, Arithmetic::Double);
        BleuScore {
            score: brevity_penalty * geometric_mean(&precisions[..orders]),
            counts: matches.iter().map(|&count| count as u64).collect(),
            totals: totals.iter().map(|&count| count as u64).collect(),
            precisions,
            brevity_penalty,
            hypothesis_len: lengths[0] as u64,
            reference_len: lengths[1] as u64,
        }
    }

    fn resampled_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore {
        let (lengths, counts) = sums.split_at(2);
        let (matches, totals) = counts.split_at(self.max_order);
        let (precisions, orders) = self.precisions(matches, totals, arithmetic);
        let mean = geometric_mean(&precisions[..orders]);
        Arithmetic::Double.score(brevity_penalty(lengths[0], lengths[1]) * mean)
    }

    fn signature(&self, num_references: usize) -> Signature {
        let entries = [
            ("case", "c", case_value(self.lowercase)),
            ("eff", "e", switch_value(self.effective_order)),
            ("tok", "tok", self.tokenizer.signature().to_owned()),
            ("smooth", "s", self.smoothing.to_string()),
        ];
        Signature::new(num_references, entries)
    }
}

impl BleuOptions {
    fn tokenize(&self, line: &str) -> String {
        if self.lowercase {
            let line = line.to_lowercase();
            self.tokenizer.tokenize(python::trim_end(&line))
        } else {
            self.tokenizer.tokenize(python::trim_end(line))
        }
    }

    /// The smoothed precisions, 0 to 100, and the number of orders of which their mean is taken: 0
    /// if nothing matches.
    ///
    /// Follows `BLEU.compute_bleu`: text without any match scores zero whatever the smoothing, the
    /// first order without n-grams ends the loop, and `add-k` leaves unigrams alone.
    fn precisions(
        &self,
        matches: &[f64],
        totals: &[f64],
        arithmetic: Arithmetic,
    ) -> (Vec<f64>, usize) {
        let mut precisions = vec![0.0; self.max_order];
        if matches.iter().all(|&matched| matched == 0.0) {
            return (precisions, 0);
        }
        let mut orders = self.max_order;
        let mut halvings = 1.0;
        for (index, precision) in precisions.iter_mut().enumerate() {
            let mut count = matches[index];
            let mut total = totals[index];
            if let Smoothing::AddK(value) = self.smoothing
                && index > 0
            {
                count = arithmetic.add_to_count(count, value);
                total = arithmetic.add_to_count(total, value);
            }
            if total == 0.0 {
                break;
            }
            if self.effective_order {
                orders = index + 1;
            }
            *precision = match self.smoothing {
                _ if count != 0.0 => percent(count, total, arithmetic),
                Smoothing::Exp => {
                    halvings *= 2.0;
                    percent(1.0, arithmetic.round(halvings * total), arithmetic)
                }
                Smoothing::Floor(value) => percent(value, total, arithmetic),
                Smoothing::AddK(_) | Smoothing::None => 0.0,
            };
        }
        (precisions, orders)
    }
}

/// `100 count / total`, rounded after each operation.
fn percent(count: f64, total: f64, arithmetic: Arithmetic) -> f64 {
    arithmetic.round(arithmetic.round(100.0 * count) / total)
}

/// The reference length closest to the hypothesis length; of two equally close ones, the shorter.
fn closest_len(hypothesis_len: usize, references: &[&[u32]]) -> usize {
    let lengths = references.iter().map(|reference| reference.len());
    lengths
        .min_by_key(|&len| (len.abs_diff(hypothesis_len), len))
        .unwrap_or(0)
}

/// `exp(1 - reference_len / hypothesis_len)` for hypotheses shorter than their references, else 1.
fn brevity_penalty(hypothesis_len: f64, reference_len: f64) -> f64 {
    if hypothesis_len >= reference_len {
        1.0
    } else if hypothesis_len > 0.0 {
        (1.0 - reference_len / hypothesis_len).exp()
    } else {
        0.0
    }
}

/// The geometric mean; zero if there are no precisions.
fn geometric_mean(precisions: &[f64]) -> f64 {
    if precisions.is_empty() {
        return 0.0;
    }
    let logs = precisions.iter().map(|precision| log(*precision));
    let sum: f64 = logs.sum();
    (sum / precisions.len() as f64).exp()
}

fn log(precision: f64) -> f64 {
    if precision == 0.0 {
        LOG_OF_ZERO
    } else {
        precision.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_two_equally_close_references_counts() {
        assert_eq!(closest_len(5, &[&[0; 6], &[0; 4], &[0; 9]]), 4);
    }

    #[test]
    fn a_negative_smoothing_value_is_an_error() {
        let options = BleuOptions {
            smoothing: Smoothing::Floor(-1.0),
            ..BleuOptions::default()
        };
        assert_eq!(
            options.validate(),
            Err(MetricError::InvalidSmoothingValue { value: -1.0 })
        );
        let options = BleuOptions {
            max_order: 0,
            ..BleuOptions::default()
        };
        assert_eq!(options.validate(), Err(MetricError::NoNgramOrder));
    }

    #[test]
    fn the_signature_names_every_option_that_changes_the_score() {
        let signature = BleuOptions::default().signature(1);
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:polyglow-metrics-{version}"
        );
        assert_eq!(signature.to_string(), expected);
        let expected = format!("#:1|c:mixed|e:no|tok:13a|s:exp|v:polyglow-metrics-{version}");
        assert_eq!(signature.short(), expected);
    }
}
