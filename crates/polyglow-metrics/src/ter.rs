//! TER: the edits, shifts of phrases among them, that turn the hypothesis into the reference
//! (Snover et al., 2006).

use std::fmt;

use crate::error::MetricError;
use crate::measure::Measure;
use crate::metric::Metric;
use crate::ngram::Vocabulary;
use crate::python;
use crate::python::arithmetic::{Arithmetic, ResampledScore};
use crate::score::{Score, write_score};
use crate::signature::{Signature, case_value, switch_value};

mod edit_distance;
mod normalization;
mod shift;

/// The options of TER; the default is sacreBLEU's.
///
/// A row of its [`Statistics`](crate::Statistics) holds the edits to the closest reference and the
/// mean length of the references in words.
///
/// ```
/// use polyglow_metrics::{TerOptions, corpus_score};
///
/// let hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
/// let references = [
///     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
///     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
/// ];
/// let score = corpus_score(&TerOptions::default(), &hypotheses, &references)?;
/// assert_eq!(score.to_string(), "TER = 40.00");
/// // Punctuation marks become words, most of which are right.
/// let options = TerOptions { normalized: true, case_sensitive: true, ..TerOptions::default() };
/// assert_eq!(corpus_score(&options, &hypotheses, &references)?.to_string(), "TER = 33.33");
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the four switches of Tercom, independent of each other"
)]
pub struct TerOptions {
    /// Whether case is kept; off by default, as in Tercom.
    pub case_sensitive: bool,
    /// Whether XML entities are decoded and punctuation marks become words; off by default.
    pub normalized: bool,
    /// Whether punctuation is removed; off by default.
    pub no_punctuation: bool,
    /// Whether the two options above apply to Chinese and Japanese characters too, each of which is
    /// then a word; off by default.
    pub asian_support: bool,
}

/// TER with its numerator and denominator.
#[derive(Debug, Clone, PartialEq)]
pub struct TerScore {
    /// Edits per hundred reference words: 0 is perfect, and more than 100 is possible.
    pub score: f64,
    /// Insertions, deletions, substitutions and shifts.
    pub num_edits: u64,
    /// Length of the references in words, the mean where a segment has several.
    pub reference_len: f64,
}

impl Score for TerScore {
    fn name(&self) -> String {
        Measure::TER.title.to_owned()
    }

    fn value(&self) -> f64 {
        self.score
    }
}

impl fmt::Display for TerScore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_score(self, formatter)
    }
}

impl Metric for TerOptions {
    type Score = TerScore;

    fn validate(&self) -> Result<(), MetricError> {
        Ok(())
    }

    fn count_segment(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let hypothesis = self.tokenize(hypothesis);
        // sacreBLEU tokenizes references twice, in `_cache_references` and
        // `_extract_reference_info`. The second pass splits off marks next to the spaces that the
        // first has put in.
        let references: Vec<String> = references
            .iter()
            .map(|line| self.tokenize(&self.tokenize(line)))
            .collect();

        let mut vocabulary = Vocabulary::default();
        let hypothesis = vocabulary.number(python::words(&hypothesis));
        let references: Vec<_> = references
            .iter()
            .map(|line| vocabulary.number(python::words(line)))
            .collect();
        let edits = references
            .iter()
            .map(|reference| shift::count_edits(&hypothesis, reference));
        let reference_len: usize = references.iter().map(Vec::len).sum();
        vec![
            edits.min().unwrap_or(0) as f64,
            reference_len as f64 / references.len() as f64,
        ]
    }

    fn score(&self, sums: &[f64]) -> TerScore {
        let score = self.resampled_score(sums, Arithmetic::Double).value;
        TerScore {
            score,
            num_edits: sums[0] as u64,
            reference_len: sums[1],
        }
    }

    fn resampled_score(&self, sums: &[f64], arithmetic: Arithmetic) -> ResampledScore {
        let edits = sums[0];
        let reference_len = sums[1];
        if reference_len > 0.0 {
            let rate = arithmetic.round(edits / reference_len);
            arithmetic.score(arithmetic.round(100.0 * rate))
        } else {
            Arithmetic::Double.score(if edits > 0.0 { 100.0 } else { 0.0 })
        }
    }

    fn signature(&self, num_references: usize) -> Signature {
        let entries = [
            ("case", "c", case_value(!self.case_sensitive)),
            ("tok", "t", "tercom".to_owned()),
            ("norm", "nr", switch_value(self.normalized)),
            ("punct", "pn", switch_value(!self.no_punctuation)),
            ("asian", "as", switch_value(self.asian_support)),
        ];
        Signature::new(num_references, entries)
    }
}

impl TerOptions {
    /// Returns the words of a line, one space between them.
    fn tokenize(&self, line: &str) -> String {
        let mut line = python::trim_end(line).to_owned();
        if !self.case_sensitive {
            line = line.to_lowercase();
        }
        if self.normalized {
            line = normalization::normalize(&line, self.asian_support);
        }
        if self.no_punctuation {
            line = normalization::remove_punctuation(&line, self.asian_support);
        }
        python::words(&line).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_phrase_is_one_edit() {
        let counts = TerOptions::default().count_segment("c d E a b", &["a b c d e"]);
        assert_eq!(counts, [1.0, 5.0]);
    }

    #[test]
    fn the_closest_reference_gives_the_edits_and_all_give_the_length() {
        let counts = TerOptions::default().count_segment("a b", &["a b c d", "a b", ""]);
        assert_eq!(counts, [0.0, 2.0]);
    }

    #[test]
    fn words_without_a_reference_are_one_hundred_percent_wrong() {
        let options = TerOptions::default();
        assert_eq!(
            options
                .score(&options.count_segment("a b", &[""]))
                .to_string(),
            "TER = 100.00"
        );
        assert_eq!(
            options.score(&options.count_segment("", &[""])).to_string(),
            "TER = 0.00"
        );
    }
}
