//! Which tokens are forbidden, forced or penalized next: length, repetition, prefixes, constraints.

use super::beam::{Live, Marks, Sentence};
use super::{Candidate, SearchConfig, constraint};

/// The rule for the next token of one hypothesis.
#[derive(Debug, Default)]
pub(super) struct Rule<'a> {
    /// Tokens that constraints ask for next, or the one that a prefix forces.
    wanted: Vec<u32>,
    /// Only the wanted tokens are allowed.
    only_wanted: bool,
    /// Set when few positions are left: a token must not make a constraint impossible to meet.
    deadline: Option<Deadline<'a>>,
    /// Not allowed, unless wanted.
    forbidden: Vec<u32>,
    /// Tokens whose log-probability is multiplied by the penalty.
    repeated: Vec<u32>,
    repetition_penalty: f32,
}

/// Few positions are left, and all constraints must still be met.
#[derive(Debug)]
struct Deadline<'a> {
    met: &'a [usize],
    constraints: &'a [Vec<u32>],
    /// Positions behind the next token, without that of the end mark.
    room: usize,
}

impl Deadline<'_> {
    /// The tokens that are allowed: each begins a phrase or goes on with one, since all phrases do
    /// not fit from their starts.
    fn allowed(&self) -> Vec<u32> {
        let mut ids = constraint::continuing(self.met, self.constraints);
        ids.retain(|&id| self.allows(id));
        ids
    }

    fn allows(&self, id: u32) -> bool {
        let met = constraint::advance(self.met, self.constraints, id);
        constraint::num_missing(&met, self.constraints) <= self.room
    }
}

impl<'a> Rule<'a> {
    pub(super) fn new(
        live: &'a Live,
        sentence: &'a Sentence,
        config: &SearchConfig,
        marks: Marks,
    ) -> Self {
        if let Some(&forced) = sentence.prefix.get(live.ids.len()) {
            return Self {
                wanted: vec![forced],
                only_wanted: true,
                ..Self::default()
            };
        }
        let len = live.ids.len() + 1;
        let (met, constraints) = (&live.met[..], &sentence.constraints[..]);
        let num_open = constraint::num_open(met, constraints);
        let room = sentence.max_len.saturating_sub(len + 1);
        let mut forbidden = Vec::new();
        if len < sentence.min_len || num_open > 0 {
            forbidden.push(marks.eos);
        }
        if config.no_repeat_ngram > 0 {
            forbidden.extend(ends_of_repeats(&live.ids, config.no_repeat_ngram));
        }
        let penalized = config.repetition_penalty > 1.0;
        Self {
            wanted: constraint::wanted(met, constraints),
            only_wanted: false,
            deadline: (num_open > room).then_some(Deadline {
                met,
                constraints,
                room,
            }),
            forbidden,
            repeated: if penalized {
                live.ids.clone()
            } else {
                Vec::new()
            },
            repetition_penalty: config.repetition_penalty as f32,
        }
    }

    /// Tokens that are to be among the candidates, however improbable: what is wanted, and all that
    /// a deadline leaves.
    pub(super) fn asked(&self) -> Vec<u32> {
        let mut asked = self.wanted.clone();
        asked.extend(
            self.deadline
                .iter()
                .flat_map(Deadline::allowed)
                .filter(|id| !self.wanted.contains(id)),
        );
        asked
    }

    /// How many of the most probable tokens the rule may move down or exclude; so many more
    /// candidates are needed. What a deadline excludes does not count: all that it leaves is asked
    /// for.
    pub(super) fn reach(&self) -> usize {
        self.forbidden.len() + self.repeated.len()
    }

    /// The score of a candidate: its log-probability, lower if it is a repetition; `None` if it is
    /// not allowed.
    pub(super) fn score(&self, candidate: Candidate) -> Option<f32> {
        let Candidate { id, log_prob } = candidate;
        let wanted = self.wanted.contains(&id);
        // A comparison that is also false for NaN.
        let possible = log_prob > f32::NEG_INFINITY;
        let forbidden = !wanted && (self.only_wanted || self.forbidden.contains(&id));
        let too_late = self
            .deadline
            .as_ref()
            .is_some_and(|deadline| !deadline.allows(id));
        if !possible || forbidden || too_late {
            return None;
        }
        Some(if self.repeated.contains(&id) {
            log_prob * self.repetition_penalty
        } else {
            log_prob
        })
    }
}

/// The tokens that would complete an n-gram which `ids` already has.
fn ends_of_repeats(ids: &[u32], n: usize) -> impl Iterator<Item = u32> {
    let newest = &ids[(ids.len() + 1).saturating_sub(n).min(ids.len())..];
    ids.windows(n)
        .filter(move |ngram| newest.len() == n - 1 && ngram[..n - 1] == *newest)
        .map(move |ngram| ngram[n - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_completes_a_repeat_is_found() {
        let ends = |ids: &[u32], n| ends_of_repeats(ids, n).collect::<Vec<_>>();
        assert_eq!(ends(&[5, 6, 7, 5, 6], 3), [7]);
        assert_eq!(ends(&[5, 6, 5, 7, 5], 2), [6, 7]);
        assert_eq!(ends(&[5, 6], 1), [5, 6]);
        assert!(ends(&[5, 6, 7], 3).is_empty());
        assert!(ends(&[], 2).is_empty());
    }
}
