//! The `[search]` section: how a translation is looked for.

use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// How hypotheses of different lengths are made comparable.
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

/// The `[search]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// Hypotheses kept at each position; 1 is greedy search; default 4.
    pub beam_size: usize,
    /// `"none"`, `"average"` or `"wu"`; default `"average"`. The length counts the end mark.
    pub length_penalty: LengthPenalty,
    /// Exponent of the penalty: of `wu`, or of the length that `average` divides by; default 1.
    pub length_alpha: f64,
    /// Longest output as a multiple of the source length, to which 10 tokens are added; default 2.
    pub max_len_ratio: f64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { beam_size: 4, length_penalty: LengthPenalty::Average, length_alpha: 1.0, max_len_ratio: 2.0 }
    }
}

impl SearchConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`ModelError::Config`] names the key, its value and the reason.
    pub fn validate(&self) -> Result<(), ModelError> {
        if self.beam_size == 0 || self.beam_size > 1024 {
            return Err(ModelError::config("search.beam_size", self.beam_size, "must be from 1 to 1024"));
        }
        if !(0.0..=10.0).contains(&self.length_alpha) {
            return Err(ModelError::config("search.length_alpha", self.length_alpha, "must be from 0 to 10"));
        }
        if !(self.max_len_ratio > 0.0 && self.max_len_ratio <= 100.0) {
            let reason = "must be above 0 and at most 100";
            return Err(ModelError::config("search.max_len_ratio", self.max_len_ratio, reason));
        }
        Ok(())
    }

    /// What a hypothesis of `num_tokens` tokens (with its end mark) and this log-probability is worth.
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

    /// The most tokens, end mark included, that the output for `src_len` source tokens may have.
    pub fn max_len(&self, src_len: usize) -> usize {
        (src_len as f64 * self.max_len_ratio).ceil() as usize + 10
    }
}
