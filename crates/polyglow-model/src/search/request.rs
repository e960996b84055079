//! The part of a translation request that changes the search.

use super::config::WIDEST;
use super::{SearchConfig, SearchMethod};
use crate::error::ModelError;

/// The search options of one request; those that it leaves out are as in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// The way to choose the next token.
    pub method: Option<SearchMethod>,
    /// Hypotheses kept at each position, samples drawn, or branches.
    pub beam_size: Option<usize>,
    /// Number of hypotheses to return, at least 1.
    pub n_best: usize,
}

impl Default for SearchRequest {
    fn default() -> Self {
        Self {
            method: None,
            beam_size: None,
            n_best: 1,
        }
    }
}

impl SearchConfig {
    /// The config of the search that a request asks for: by its method, and wide enough for its
    /// `n_best` hypotheses.
    ///
    /// A request without `beam_size` gets the config's beam, but `n_best` samples: the best of
    /// several would be no fair draw (see [`Self::drawing`]). Diversity groups apply to beams only.
    /// No beam is wider than a vocabulary of `vocab_size` tokens.
    ///
    /// # Errors
    /// [`ModelError::Config`] if a number is out of range, or the width does not fit the config's
    /// groups.
    ///
    /// ```
    /// use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
    ///
    /// let config = SearchConfig { beam_size: 4, ..SearchConfig::default() };
    /// let width = |request| config.for_request(request, 1000).map(|search| search.beam_size);
    /// assert_eq!(width(SearchRequest::default())?, 4);
    /// let method = Some(SearchMethod::Sample);
    /// let sample = SearchRequest { method, ..SearchRequest::default() };
    /// assert_eq!(width(sample)?, 1);
    /// assert_eq!(width(SearchRequest { n_best: 6, ..sample })?, 6);
    /// # Ok::<(), polyglow_model::ModelError>(())
    /// ```
    pub fn for_request(
        &self,
        request: SearchRequest,
        vocab_size: usize,
    ) -> Result<Self, ModelError> {
        let SearchRequest {
            method,
            beam_size,
            n_best,
        } = request;
        if n_best == 0 || n_best > WIDEST {
            return Err(ModelError::config(
                "n_best",
                n_best,
                format!("must be from 1 to {WIDEST}"),
            ));
        }
        let mut search = Self {
            method: method.unwrap_or(self.method),
            ..self.clone()
        };
        if search.method != SearchMethod::Beam {
            search.diversity_groups = 1;
        }
        if let Some(beam_size) = beam_size {
            search.beam_size = beam_size;
            search.validate()?;
        } else {
            search = search.drawing(n_best);
        }
        search.beam_size = search.beam_size.max(n_best);
        if search.method == SearchMethod::Beam {
            search.beam_size = search.beam_size.min(vocab_size);
        }
        search.validate()?;
        Ok(search)
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
            };
            let search = config.for_request(request, 10).expect("it is in range");
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
                .for_request(request, 100)
                .expect_err("it is out of range")
                .to_string()
        };
        assert_eq!(
            error(Some(0), 1),
            "`search.beam_size = 0`: must be from 1 to 1024"
        );
        assert_eq!(error(None, 0), "`n_best = 0`: must be from 1 to 1024");
        assert_eq!(
            error(Some(3), 1),
            "`search.diversity_groups = 2`: must divide `search.beam_size = 3`"
        );
        assert_eq!(
            error(None, 5),
            "`search.diversity_groups = 2`: must divide `search.beam_size = 5`"
        );
    }
}
