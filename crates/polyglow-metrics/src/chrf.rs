//! chrF: the F-score of character n-grams, and of word n-grams in chrF++ (Popović, 2015 and 2017).

use std::fmt;

use crate::error::MetricError;
use crate::measure::Measure;
use crate::metric::Metric;
use crate::ngram::{Vocabulary, check_orders, clipped_matches, num_ngrams};
use crate::python;
use crate::python::arithmetic::{Arithmetic, ResampledScore};
use crate::score::{Score, write_score};
use crate::signature::{Signature, case_value, switch_value};

/// The value of an undefined ratio with epsilon smoothing, in chrF++.py as in sacreBLEU.
const EPSILON: f64 = 1e-16;

/// The options of chrF; the default is sacreBLEU's, which is chrF2.
///
/// A row of its [`Statistics`](crate::Statistics) holds three counts for each character order, then
/// for each word order: n-grams in the hypothesis (0 if the reference has none), in the reference,
/// and in both.
///
/// ```
/// use polyglow_metrics::{ChrfOptions, corpus_score};
///
/// let hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
/// let references = [
///     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
///     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
/// ];
/// let score = corpus_score(&ChrfOptions::default(), &hypotheses, &references)?;
/// assert_eq!(score.to_string(), "chrF2 = 59.73");
/// let score = corpus_score(&ChrfOptions::plus_plus(), &hypotheses, &references)?;
/// assert_eq!(score.to_string(), "chrF2++ = 59.15");
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChrfOptions {
    /// The longest character n-grams; 6 by default.
    pub char_order: usize,
    /// The longest word n-grams; 0 by default, 2 in chrF++.
    pub word_order: usize,
    /// The weight of recall: it counts `beta` times as much as precision; 2 by default.
    pub beta: u32,
    /// Whether lines are lowercased first; off by default.
    pub lowercase: bool,
    /// Whether whitespace is kept in character n-grams; off by default.
    pub whitespace: bool,
    /// Whether the F-scores of all orders are averaged, undefined ones as epsilon, as in chrF++.py,
    /// NLTK and Moses.
    ///
    /// Off by default: precision and recall are then averaged over the orders that both sides have.
    pub eps_smoothing: bool,
}

impl Default for ChrfOptions {
    fn default() -> Self {
        Self {
            char_order: 6,
            word_order: 0,
            beta: 2,
            lowercase: false,
            whitespace: false,
            eps_smoothing: false,
        }
    }
}

impl ChrfOptions {
    /// Returns the options of chrF++, which counts words and word pairs too.
    pub fn plus_plus() -> Self {
        Self {
            word_order: 2,
            ..Self::default()
        }
    }
}

/// chrF with the options that appear in its name.
#[derive(Debug, Clone, PartialEq)]
pub struct ChrfScore {
    /// chrF, 0 to 100.
    pub score: f64,
    /// The weight of recall relative to precision.
    pub beta: u32,
    /// The longest word n-grams.
    pub word_order: usize,
}

impl Score for ChrfScore {
    fn name(&self) -> String {
        format!(
            "{}{}{}",
            Measure::CHRF.title,
            self.beta,
            "+".repeat(self.word_order)
        )
    }

    fn value(&self) -> f64 {
        self.score
    }
}

impl fmt::Display for ChrfScore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_score(self, formatter)
    }
}

impl Metric for ChrfOptions {
    type Score = ChrfScore;

    fn validate(&self) -> Result<(), MetricError> {
        check_orders(&[self.char_order, self.word_order])
    }

    /// Counts against the reference with the highest score, against the first of several with the
    /// same.
    ///
    /// sacreBLEU's best score starts below zero, so if nothing matches the first reference is the
    /// one that counts.
    fn count_segment(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let hypothesis = self.preprocess(hypothesis);
        let mut best: Option<(f64, Vec<f64>)> = None;
        for reference in references {
            let counts = self.count_pair(&hypothesis, &self.preprocess(reference));
            let score = self.score(&counts).score;
            if best
                .as_ref()
                .is_none_or(|(best_score, _)| score > *best_score)
            {
                best = Some((score, counts));
            }
        }
        best.map(|(_, counts)| counts).unwrap_or_default()
    }

    fn score(&self, sums: &[f64]) -> ChrfScore {
        let score = self.resampled_score(sums, Arithmetic::Double).value;
        ChrfScore {
            score,
            beta: self.beta,
            word_order: self.word_order,
        }
    }

    fn resampled_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore {
        if self.eps_smoothing {
            self.mean_f_score(sums, arithmetic)
        } else {
            self.f_score_of_means(sums, arithmetic)
        }
    }

    fn signature(&self, num_references: usize) -> Signature {
        let entries = [
            ("case", "c", case_value(self.lowercase)),
            ("eff", "e", switch_value(!self.eps_smoothing)),
            ("nc", "nc", self.char_order.to_string()),
            ("nw", "nw", self.word_order.to_string()),
            ("space", "s", switch_value(self.whitespace)),
        ];
        Signature::new(num_references, entries)
    }
}

impl ChrfOptions {
    fn preprocess(&self, line: &str) -> String {
        if self.lowercase {
            line.to_lowercase()
        } else {
            line.to_owned()
        }
    }

    fn count_pair(&self, hypothesis: &str, reference: &str) -> Vec<f64> {
        let hypothesis_chars = self.chars(hypothesis);
        let reference_chars = self.chars(reference);
        let mut counts = count_orders(&hypothesis_chars, &reference_chars, self.char_order);
        if self.word_order > 0 {
            let mut vocabulary = Vocabulary::default();
            let reference_words = vocabulary.number(split_punctuation(reference));
            let hypothesis_words = vocabulary.number(split_punctuation(hypothesis));
            counts.extend(count_orders(
                &hypothesis_words,
                &reference_words,
                self.word_order,
            ));
        }
        counts
    }

    fn chars(&self, line: &str) -> Vec<u32> {
        line.chars()
            .filter(|&c| self.whitespace || !python::is_space(c))
            .map(u32::from)
            .collect()
    }

    /// The F-score of precision and recall, each averaged over the orders that both sides have.
    fn f_score_of_means(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore {
        let mut precision = 0.0;
        let mut recall = 0.0;
        let mut orders = 0.0;
        for order in sums.as_chunks::<3>().0 {
            let &[in_hypothesis, in_reference, in_both] = order;
            if in_hypothesis > 0.0 && in_reference > 0.0 {
                precision = arithmetic.round(precision + arithmetic.round(in_both / in_hypothesis));
                recall = arithmetic.round(recall + arithmetic.round(in_both / in_reference));
                orders += 1.0;
            }
        }
        if precision + recall == 0.0 {
            return Arithmetic::Double.score(0.0);
        }
        let precision = arithmetic.round(precision / orders);
        let recall = arithmetic.round(recall / orders);
        let f_score = self.f_score(precision, recall, arithmetic);
        arithmetic.score(arithmetic.round(100.0 * f_score))
    }

    /// The mean of the F-scores of all orders, with epsilon for undefined ratios and F-scores.
    fn mean_f_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore {
        // Until a count takes part in the sum, it is a Python float, which has double precision.
        let mut sum_arithmetic = Arithmetic::Double;
        let mut sum = 0.0;
        for order in sums.as_chunks::<3>().0 {
            let &[in_hypothesis, in_reference, in_both] = order;
            let precision = ratio_or_epsilon(in_both, in_hypothesis, arithmetic);
            let recall = ratio_or_epsilon(in_both, in_reference, arithmetic);
            if self.factor() * precision + recall == 0.0 {
                sum = sum_arithmetic.round(sum + EPSILON);
                continue;
            }
            if in_hypothesis > 0.0 || in_reference > 0.0 {
                sum_arithmetic = arithmetic;
            }
            sum = sum_arithmetic.round(sum + self.f_score(precision, recall, sum_arithmetic));
        }
        let orders = (self.char_order + self.word_order) as f64;
        let percent = sum_arithmetic.round(100.0 * sum);
        sum_arithmetic.score(sum_arithmetic.round(percent / orders))
    }

    fn factor(&self) -> f64 {
        f64::from(self.beta).powi(2)
    }

    /// `(1 + beta²) precision recall / (beta² precision + recall)`.
    fn f_score(&self, precision: f64, recall: f64, arithmetic: Arithmetic) -> f64 {
        let factor = self.factor();
        let dividend = arithmetic.round((1.0 + factor) * precision);
        let dividend = arithmetic.round(dividend * recall);
        let divisor = arithmetic.round(factor * precision);
        let divisor = arithmetic.round(divisor + recall);
        arithmetic.round(dividend / divisor)
    }
}

/// `count / total`, or epsilon where that is not defined.
fn ratio_or_epsilon(count: f64, total: f64, arithmetic: Arithmetic) -> f64 {
    if total > 0.0 {
        arithmetic.round(count / total)
    } else {
        EPSILON
    }
}

/// Counts the n-grams of the hypothesis, of the reference and of both, order by order.
fn count_orders(hypothesis: &[u32], reference: &[u32], max_order: usize) -> Vec<f64> {
    let matches = clipped_matches(hypothesis, &[reference], max_order);
    let mut counts = Vec::with_capacity(3 * max_order);
    for (order, matched) in (1..).zip(matches) {
        let in_reference = num_ngrams(reference.len(), order);
        // As in `_get_match_statistics`: an order that the reference lacks does not count against
        // the hypothesis.
        let in_hypothesis = if in_reference > 0 {
            num_ngrams(hypothesis.len(), order)
        } else {
            0
        };
        counts.extend([in_hypothesis, in_reference, matched].map(|count| count as f64));
    }
    counts
}

/// The words of a line, each with one ASCII punctuation mark split off: the last character, or else
/// the first.
///
/// Only one, as in chrF++.py: `(hi)` becomes `(hi` and `)`, which sacreBLEU notes in its issue 124.
fn split_punctuation(line: &str) -> impl Iterator<Item = &str> {
    python::words(line).flat_map(|word| {
        let last = word.len() - 1;
        let (left, right) = match word.as_bytes() {
            [_] => (word, ""),
            [.., end] if end.is_ascii_punctuation() => word.split_at(last),
            [start, ..] if start.is_ascii_punctuation() => word.split_at(1),
            _ => (word, ""),
        };
        [left, right].into_iter().filter(|part| !part.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_punctuation_mark_is_split_off_each_word() {
        let words: Vec<_> = split_punctuation("(hi) «a» \"b ... ä, -").collect();
        assert_eq!(
            words,
            ["(hi", ")", "«a»", "\"", "b", "..", ".", "ä", ",", "-"]
        );
    }

    #[test]
    fn without_any_match_the_first_reference_counts() {
        let options = ChrfOptions {
            char_order: 1,
            ..ChrfOptions::default()
        };
        assert_eq!(options.count_segment("a", &["xyz", "x"]), [1.0, 3.0, 0.0]);
        assert_eq!(options.count_segment("a", &["xyz", "ab"]), [1.0, 2.0, 1.0]);
    }

    #[test]
    fn an_order_of_zero_or_millions_is_an_error() {
        let options = ChrfOptions {
            char_order: 0,
            ..ChrfOptions::default()
        };
        assert_eq!(options.validate(), Err(MetricError::NoNgramOrder));
        let options = ChrfOptions {
            word_order: usize::MAX,
            ..options
        };
        let error = MetricError::NgramOrderTooHigh {
            order: usize::MAX,
            limit: 100,
        };
        assert_eq!(options.validate(), Err(error));
    }

    #[test]
    fn the_name_and_the_signature_tell_the_options() {
        let options = ChrfOptions::plus_plus();
        assert_eq!(options.score(&[0.0; 24]).to_string(), "chrF2++ = 0.00");
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:polyglow-metrics-{version}"
        );
        assert_eq!(options.signature(2).to_string(), expected);
    }
}
