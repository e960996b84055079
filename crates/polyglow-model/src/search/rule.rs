//! Rules that forbid, force or penalize tokens: length, repetition, prefixes, constraints.

use super::hypothesis::{Sentence, SpecialTokens, Unfinished};
use super::{Candidate, SearchConfig, constraint};

/// The rule for the next token of one hypothesis.
#[derive(Debug, Default)]
pub(super) struct Rule<'a> {
    /// Tokens that constraints request next, or the one that a prefix forces.
    requested: Vec<u32>,
    /// Whether only the requested tokens are allowed.
    only_requested: bool,
    /// Whether the next token is one of the start, which costs nothing.
    is_free: bool,
    /// Set when few positions are left: a token must not make a constraint impossible to meet.
    deadline: Option<Deadline<'a>>,
    /// Tokens that are not allowed, unless requested.
    forbidden: Vec<u32>,
    /// Tokens whose log-probability is multiplied by the penalty.
    repeated: Vec<u32>,
    repetition_penalty: f32,
}

/// The score and the log-probability that a token adds to the hypothesis that it continues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Price {
    /// Its log-probability; 0 for a token of the start.
    pub(super) log_prob: f32,
    /// The log-probability with the penalty for repetition.
    pub(super) score: f32,
}

/// The case that few positions are left for the constraints that are not met.
#[derive(Debug)]
struct Deadline<'a> {
    met: &'a [usize],
    constraints: &'a [Vec<u32>],
    /// Positions after the next token, without that of EOS.
    num_left: usize,
}

impl Deadline<'_> {
    /// The tokens that are allowed: each begins a phrase or continues one, since the phrases no
    /// longer fit if all of them begin after the next token.
    fn allowed(&self) -> Vec<u32> {
        let mut ids = constraint::continuing(self.met, self.constraints);
        ids.retain(|&id| self.allows(id));
        ids
    }

    fn allows(&self, id: u32) -> bool {
        let met = constraint::advance(self.met, self.constraints, id);
        constraint::num_missing(&met, self.constraints) <= self.num_left
    }
}

impl<'a> Rule<'a> {
    pub(super) fn new(
        live: &'a Unfinished,
        sentence: &'a Sentence,
        config: &SearchConfig,
        special: SpecialTokens,
    ) -> Self {
        if let Some(forced) = sentence.forced(live.ids.len()) {
            return Self {
                requested: vec![forced],
                only_requested: true,
                is_free: live.ids.len() < sentence.start.len(),
                ..Self::default()
            };
        }
        let met = &live.met[..];
        let constraints = &sentence.constraints[..];
        // Lengths count the next token, as if it were EOS.
        let len = live.ids.len() + 1;
        let num_left = sentence.max_len.saturating_sub(len + 1);
        let num_open = constraint::num_open(met, constraints);

        let mut forbidden = Vec::new();
        // EOS must wait for the minimum length and for all constraints.
        if len < sentence.min_len || num_open > 0 {
            forbidden.push(special.eos);
        }
        if config.no_repeat_ngram > 0 {
            forbidden.extend(ends_of_repeats(&live.ids, config.no_repeat_ngram));
        }
        let mut repeated = Vec::new();
        if config.repetition_penalty > 1.0 {
            repeated.clone_from(&live.ids);
        }
        Self {
            requested: constraint::next_tokens(met, constraints),
            only_requested: false,
            is_free: false,
            // `num_open` bounds the missing tokens after any token, so that before the deadline
            // every token leaves enough positions, and the check can be skipped.
            deadline: (num_open > num_left).then_some(Deadline {
                met,
                constraints,
                num_left,
            }),
            forbidden,
            repeated,
            repetition_penalty: config.repetition_penalty as f32,
        }
    }

    /// The tokens that must be among the candidates, however improbable: those that constraints or
    /// the prefix request, and all that a deadline allows.
    pub(super) fn requested(&self) -> Vec<u32> {
        let mut requested = self.requested.clone();
        if let Some(deadline) = &self.deadline {
            let allowed = deadline.allowed().into_iter();
            requested.extend(allowed.filter(|id| !self.requested.contains(id)));
        }
        requested
    }

    /// The number of most probable tokens that the rule may exclude or move down, which is the
    /// number of candidates that are needed in addition. Those that a deadline excludes do not
    /// count: every token that it allows is requested.
    pub(super) fn num_affected(&self) -> usize {
        self.forbidden.len() + self.repeated.len()
    }

    /// Returns the price of a candidate; `None` if it is not allowed.
    pub(super) fn price(&self, candidate: Candidate) -> Option<Price> {
        let score = self.score(candidate)?;
        if self.is_free {
            return Some(Price::default());
        }
        Some(Price {
            log_prob: candidate.log_prob,
            score,
        })
    }

    /// The score of a candidate: its log-probability, lower if it is a repetition; `None` if it is
    /// not allowed.
    fn score(&self, candidate: Candidate) -> Option<f32> {
        let Candidate { id, log_prob } = candidate;
        let is_requested = self.requested.contains(&id);
        // A comparison that is also false for NaN.
        let is_possible = log_prob > f32::NEG_INFINITY;
        let is_forbidden = !is_requested && (self.only_requested || self.forbidden.contains(&id));
        let is_too_late = self
            .deadline
            .as_ref()
            .is_some_and(|deadline| !deadline.allows(id));
        if !is_possible || is_forbidden || is_too_late {
            return None;
        }
        // Log-probabilities are negative, so that a factor above 1 lowers them.
        Some(if self.repeated.contains(&id) {
            log_prob * self.repetition_penalty
        } else {
            log_prob
        })
    }
}

/// The tokens that would complete an n-gram which `ids` already has.
fn ends_of_repeats(ids: &[u32], n: usize) -> impl Iterator<Item = u32> {
    // The last `n - 1` tokens; of fewer tokens all, and then nothing is a repeat.
    let newest = &ids[(ids.len() + 1).saturating_sub(n).min(ids.len())..];
    ids.windows(n)
        .filter(move |ngram| newest.len() == n - 1 && ngram[..n - 1] == *newest)
        .map(move |ngram| ngram[n - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_complete_a_repeat_are_listed() {
        let ends = |ids: &[u32], n| ends_of_repeats(ids, n).collect::<Vec<_>>();
        assert_eq!(ends(&[5, 6, 7, 5, 6], 3), [7]);
        assert_eq!(ends(&[5, 6, 5, 7, 5], 2), [6, 7]);
        assert_eq!(ends(&[5, 6], 1), [5, 6]);
        assert!(ends(&[5, 6, 7], 3).is_empty());
        assert!(ends(&[], 2).is_empty());
    }
}
