//! The search options of one call, and the search that they ask for.

use super::config::WIDEST;
use super::{LengthPenalty, SearchConfig, SearchMethod};
use crate::error::ModelError;

/// The search options of one call. The config of the searches decides those that are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRequest {
    /// The way to choose the next token.
    pub method: Option<SearchMethod>,
    /// Hypotheses kept at each position, samples drawn, or branches; at least `n_best`.
    pub beam_size: Option<usize>,
    /// Number of hypotheses to return for each sentence, at least 1. A search may end with fewer.
    pub n_best: usize,
    /// The normalization by length.
    pub length_penalty: Option<LengthPenalty>,
    /// Exponent of the length penalty.
    pub length_alpha: Option<f64>,
    /// Sampling: the divisor of log-probabilities.
    pub temperature: Option<f64>,
    /// Sampling: draws among this number of most probable tokens; 0 for all.
    pub top_k: Option<usize>,
    /// Sampling: draws among the fewest tokens with at least this probability together.
    pub top_p: Option<f64>,
    /// Sampling: the seed of the random numbers.
    pub seed: Option<u64>,
    /// Whether hypotheses are returned with their scores. Greedy search is faster without.
    pub scores: bool,
}

impl Default for SearchRequest {
    fn default() -> Self {
        Self {
            method: None,
            beam_size: None,
            n_best: 1,
            length_penalty: None,
            length_alpha: None,
            temperature: None,
            top_k: None,
            top_p: None,
            seed: None,
            scores: false,
        }
    }
}

impl SearchRequest {
    /// Checks the number of hypotheses to return, which does not depend on the config.
    ///
    /// # Errors
    /// [`ModelError::Config`] if it is out of range, or more than the requested beam keeps.
    pub fn validate(&self) -> Result<(), ModelError> {
        let n_best = self.n_best;
        if n_best == 0 || n_best > WIDEST {
            let reason = format!("must be from 1 to {WIDEST}");
            return Err(ModelError::config("n_best", n_best, reason));
        }
        match self.beam_size {
            // A beam of 0 is an error of its own, which `SearchConfig::validate` names.
            Some(beam_size) if (1..n_best).contains(&beam_size) => {
                let reason = format!("must be at most `search.beam_size = {beam_size}`");
                Err(ModelError::config("n_best", n_best, reason))
            }
            _ => Ok(()),
        }
    }
}

impl SearchConfig {
    /// Returns the config of the search for a request: its options in place of those of `self`, and
    /// wide enough for its `n_best` hypotheses.
    ///
    /// A request without `beam_size` gets the config's beam, but `n_best` samples: the best of
    /// several would be no fair draw, since shorter and likelier texts win. Diversity groups apply
    /// to beams only. No beam is wider than a vocabulary of `vocab_size` tokens.
    ///
    /// # Errors
    /// [`ModelError::Config`] if a number is out of range, or the width does not fit the config's
    /// groups.
    ///
    /// ```
    /// use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
    ///
    /// let config = SearchConfig { beam_size: 4, ..SearchConfig::default() };
    /// let width = |request| config.for_request(&request, 1000).map(|search| search.beam_size);
    /// assert_eq!(width(SearchRequest::default())?, 4);
    /// let method = Some(SearchMethod::Sample);
    /// let sample = SearchRequest { method, ..SearchRequest::default() };
    /// assert_eq!(width(sample)?, 1);
    /// assert_eq!(width(SearchRequest { n_best: 6, ..sample })?, 6);
    /// # Ok::<(), polyglow_model::ModelError>(())
    /// ```
    pub fn for_request(
        &self,
        request: &SearchRequest,
        vocab_size: usize,
    ) -> Result<Self, ModelError> {
        request.validate()?;
        let mut search = self.with_options(request);
        if search.method != SearchMethod::Beam {
            search.diversity_groups = 1;
        }
        if request.beam_size.is_none() {
            search.beam_size = match search.method {
                SearchMethod::Sample => request.n_best,
                SearchMethod::Beam | SearchMethod::Branch => search.beam_size.max(request.n_best),
            };
        }
        search.validate()?;
        if search.method == SearchMethod::Beam && search.width() > vocab_size {
            let groups = search.diversity_groups;
            search.beam_size = (vocab_size / groups).max(1) * groups;
        }
        Ok(search)
    }

    /// Returns `self` with the options that a request names.
    fn with_options(&self, request: &SearchRequest) -> Self {
        Self {
            method: request.method.unwrap_or(self.method),
            beam_size: request.beam_size.unwrap_or(self.beam_size),
            length_penalty: request.length_penalty.unwrap_or(self.length_penalty),
            length_alpha: request.length_alpha.unwrap_or(self.length_alpha),
            temperature: request.temperature.unwrap_or(self.temperature),
            top_k: request.top_k.unwrap_or(self.top_k),
            top_p: request.top_p.unwrap_or(self.top_p),
            seed: request.seed.unwrap_or(self.seed),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_as_many_as_are_returned_and_beams_are_as_wide_as_the_config_says() {
        let grouped = SearchConfig {
            beam_size: 4,
            diversity_groups: 2,
            ..SearchConfig::default()
        };
        let sampling = SearchConfig {
            method: SearchMethod::Sample,
            ..SearchConfig::default()
        };
        let [sample, branch] = [SearchMethod::Sample, SearchMethod::Branch].map(Some);
        for (config, method, beam_size, n_best, expected) in [
            (&grouped, None, None, 1, (4, 2)),
            (&grouped, None, Some(2), 1, (2, 2)),
            (&grouped, None, None, 6, (6, 2)),
            (&grouped, None, Some(64), 1, (10, 2)),
            (&grouped, sample, None, 1, (1, 1)),
            (&grouped, sample, None, 3, (3, 1)),
            (&grouped, sample, Some(8), 3, (8, 1)),
            // Several samples may be the same, so that there may be more than tokens.
            (&grouped, sample, None, 32, (32, 1)),
            (&grouped, branch, None, 1, (4, 1)),
            (&sampling, None, None, 1, (1, 1)),
            (&sampling, None, None, 2, (2, 1)),
            (&sampling, Some(SearchMethod::Beam), None, 1, (4, 1)),
        ] {
            let request = SearchRequest {
                method,
                beam_size,
                n_best,
                ..SearchRequest::default()
            };
            let search = config.for_request(&request, 10).expect("it is in range");
            assert_eq!(
                (search.beam_size, search.diversity_groups),
                expected,
                "{request:?}"
            );
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let error = |beam_size, n_best| {
            let config = SearchConfig {
                diversity_groups: 2,
                ..SearchConfig::default()
            };
            let request = SearchRequest {
                beam_size,
                n_best,
                ..SearchRequest::default()
            };
            config
                .for_request(&request, 100)
                .expect_err("it is out of range")
                .to_string()
        };
        assert_eq!(
            error(Some(0), 1),
            "`search.beam_size = 0`: must be from 1 to 1024"
        );
        assert_eq!(error(None, 0), "`n_best = 0`: must be from 1 to 1024");
        assert_eq!(
            error(Some(2), 3),
            "`n_best = 3`: must be at most `search.beam_size = 2`"
        );
        assert_eq!(
            error(Some(3), 1),
            "`search.diversity_groups = 2`: must divide `search.beam_size = 3`"
        );
        assert_eq!(
            error(None, 5),
            "`search.diversity_groups = 2`: must divide `search.beam_size = 5`"
        );
    }

    #[test]
    fn a_width_that_a_vocabulary_suffices_for_stays() {
        let config = SearchConfig {
            beam_size: 20,
            diversity_groups: 4,
            ..SearchConfig::default()
        };
        let width = |vocab_size| {
            let search = config.for_request(&SearchRequest::default(), vocab_size);
            search.expect("it is in range").beam_size
        };
        // Groups are searched apart: each needs as many tokens as it keeps hypotheses.
        assert_eq!((width(5), width(4), width(3)), (20, 4, 4));
        let request = SearchRequest {
            temperature: Some(0.5),
            length_alpha: Some(0.6),
            seed: Some(7),
            ..SearchRequest::default()
        };
        let search = config.for_request(&request, 5).expect("it is in range");
        let expected = SearchConfig {
            temperature: 0.5,
            length_alpha: 0.6,
            seed: 7,
            ..config
        };
        assert_eq!(search, expected);
    }
}
