//! The `[search]` section: method, width, penalties and limits of a search.

use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// The largest beam, number of samples or number of branches.
pub(super) const WIDEST: usize = 1024;

/// The normalization of log-probabilities that makes hypotheses of different lengths comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthPenalty {
    /// The plain sum of log-probabilities, which favors short output.
    None,
    /// The sum divided by the number of tokens.
    #[default]
    Average,
    /// The sum divided by `((5 + n) / 6)^alpha` (Wu et al., 2016, section 7).
    Wu,
}

/// The way to choose the next token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchMethod {
    /// Keeps the most probable hypotheses; with a beam of one, greedy search.
    #[default]
    Beam,
    /// Draws tokens at random by the model's probabilities; `beam_size` independent samples.
    Sample,
    /// Continues each of the `beam_size` most probable tokens after the prefix greedily, which
    /// shows the alternatives at that position.
    Branch,
}

/// The `[search]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// `"beam"`, `"sample"` or `"branch"`; default `"beam"`.
    pub method: SearchMethod,
    /// Hypotheses kept at each position, samples drawn, or branches; 1 is greedy search; default 4.
    pub beam_size: usize,
    /// `"none"`, `"average"` or `"wu"`; default `"average"`. The length counts EOS.
    pub length_penalty: LengthPenalty,
    /// Exponent of the penalty: of `wu`, or of the length that `average` divides by; default 1.
    pub length_alpha: f64,
    /// Longest output as a multiple of the source length, to which 10 tokens are added; default 2.
    pub max_len_ratio: f64,
    /// Shortest output as a multiple of the source length, both in tokens; default 0.
    pub min_len_ratio: f64,
    /// No n-gram of this length occurs twice in an output; 0 allows all; default 0.
    pub no_repeat_ngram: usize,
    /// Factor on the log-probability of tokens that the output already has (Keskar et al., 2019);
    /// default 1, off.
    pub repetition_penalty: f64,
    /// Groups that the beam is divided into, each kept apart from those before it (Vijayakumar et
    /// al., 2018); a divisor of `beam_size`; default 1, off.
    pub diversity_groups: usize,
    /// Subtracted from a token's log-probability for each hypothesis of an earlier group that
    /// continues with it at this position, in nats: the Hamming diversity of Vijayakumar et al. It
    /// ranks the tokens of this position and is no part of scores; default 0.5.
    pub diversity_penalty: f64,
    /// Sampling: divides log-probabilities; below 1 sharper, above 1 flatter; default 1.
    pub temperature: f64,
    /// Sampling: draws among this number of most probable tokens (Fan et al., 2018); 0 for all;
    /// default 0.
    pub top_k: usize,
    /// Sampling: draws among the fewest tokens with at least this probability together (Holtzman et
    /// al., 2020); default 1, all.
    pub top_p: f64,
    /// Sampling: the same seed draws the same outputs; default 1.
    pub seed: u64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            method: SearchMethod::Beam,
            beam_size: 4,
            length_penalty: LengthPenalty::Average,
            length_alpha: 1.0,
            max_len_ratio: 2.0,
            min_len_ratio: 0.0,
            no_repeat_ngram: 0,
            repetition_penalty: 1.0,
            diversity_groups: 1,
            diversity_penalty: 0.5,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            seed: 1,
        }
    }
}

impl SearchConfig {
    /// This config with greedy search, as validation uses it.
    #[must_use]
    pub fn greedy(&self) -> Self {
        Self {
            method: SearchMethod::Beam,
            beam_size: 1,
            diversity_groups: 1,
            ..self.clone()
        }
    }

    /// Checks the ranges, and the values that depend on each other.
    ///
    /// # Errors
    /// [`ModelError::Config`] names the key, its value and the reason.
    pub fn validate(&self) -> Result<(), ModelError> {
        if self.beam_size == 0 || self.beam_size > WIDEST {
            return Err(ModelError::config(
                "search.beam_size",
                self.beam_size,
                format!("must be from 1 to {WIDEST}"),
            ));
        }
        self.validate_ranges()?;
        if self.min_len_ratio > self.max_len_ratio {
            let reason = format!(
                "must be at most `search.max_len_ratio = {}`",
                self.max_len_ratio
            );
            return Err(ModelError::config(
                "search.min_len_ratio",
                self.min_len_ratio,
                reason,
            ));
        }
        if self.diversity_groups == 0 || !self.beam_size.is_multiple_of(self.diversity_groups) {
            let reason = format!("must divide `search.beam_size = {}`", self.beam_size);
            return Err(ModelError::config(
                "search.diversity_groups",
                self.diversity_groups,
                reason,
            ));
        }
        if self.diversity_groups > 1 && self.method != SearchMethod::Beam {
            let reason =
                "samples and branches are apart already; groups are only for the method `beam`";
            return Err(ModelError::config(
                "search.diversity_groups",
                self.diversity_groups,
                reason,
            ));
        }
        Ok(())
    }

    /// Checks the range of every number that is not a count; NaN is in none.
    fn validate_ranges(&self) -> Result<(), ModelError> {
        let ranges = [
            (
                "search.length_alpha",
                self.length_alpha,
                (0.0..=10.0).contains(&self.length_alpha),
                "from 0 to 10",
            ),
            (
                "search.max_len_ratio",
                self.max_len_ratio,
                is_above_zero(self.max_len_ratio, 100.0),
                "above 0, at most 100",
            ),
            (
                "search.min_len_ratio",
                self.min_len_ratio,
                (0.0..=100.0).contains(&self.min_len_ratio),
                "from 0 to 100",
            ),
            (
                "search.repetition_penalty",
                self.repetition_penalty,
                (1.0..=100.0).contains(&self.repetition_penalty),
                "from 1 to 100",
            ),
            (
                "search.diversity_penalty",
                self.diversity_penalty,
                (0.0..=100.0).contains(&self.diversity_penalty),
                "from 0 to 100",
            ),
            (
                "search.temperature",
                self.temperature,
                is_above_zero(self.temperature, 100.0),
                "above 0, at most 100",
            ),
            (
                "search.top_p",
                self.top_p,
                is_above_zero(self.top_p, 1.0),
                "above 0, at most 1",
            ),
        ];
        for (key, value, fits, range) in ranges {
            if !fits {
                return Err(ModelError::config(key, value, format!("must be {range}")));
            }
        }
        Ok(())
    }

    /// The score of a hypothesis of `num_tokens` tokens, with EOS if it ended by it, with this
    /// log-probability.
    ///
    /// `none`: the log-probability; `average`: divided by `num_tokens^alpha`; `wu`: divided by
    /// `((5 + num_tokens) / 6)^alpha` (Wu et al., 2016, equation 14).
    pub fn score(&self, log_prob: f32, num_tokens: usize) -> f32 {
        let length = num_tokens as f32;
        let alpha = self.length_alpha as f32;
        match self.length_penalty {
            LengthPenalty::None => log_prob,
            LengthPenalty::Average => log_prob / length.powf(alpha),
            LengthPenalty::Wu => log_prob / ((5.0 + length) / 6.0).powf(alpha),
        }
    }

    /// Number of hypotheses that compete with each other: the beam, or a group of it that is
    /// searched apart.
    pub fn width(&self) -> usize {
        self.groups().1
    }

    /// Whether the search depends only on which token of a row is the most probable, and not on the
    /// probability.
    pub fn is_greedy(&self) -> bool {
        self.method == SearchMethod::Beam && self.beam_size == 1 && self.repetition_penalty <= 1.0
    }

    /// The number of groups that are searched apart from each other, and the number of hypotheses
    /// of each.
    pub(super) fn groups(&self) -> (usize, usize) {
        match self.method {
            SearchMethod::Beam => (
                self.diversity_groups,
                self.beam_size / self.diversity_groups,
            ),
            SearchMethod::Sample | SearchMethod::Branch => (self.beam_size, 1),
        }
    }

    /// The fewest tokens, EOS included, that the output for `src_len` source tokens may have.
    pub fn min_len(&self, src_len: usize) -> usize {
        (src_len as f64 * self.min_len_ratio).ceil() as usize
    }

    /// The most tokens, EOS included, that the output for `src_len` source tokens may have.
    pub fn max_len(&self, src_len: usize) -> usize {
        (src_len as f64 * self.max_len_ratio).ceil() as usize + 10
    }
}

/// Whether a value is above 0 and at most `most`.
fn is_above_zero(value: f64, most: f64) -> bool {
    value > 0.0 && value <= most
}
