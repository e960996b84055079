//! The data of a search: the requirements of a sentence, unfinished hypotheses and their
//! continuations, and the hypotheses that it returns.

use std::cmp::Ordering;

use super::constraint;

/// A translation as ids, and how probable the model thinks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Target ids without BOS and EOS.
    pub ids: Vec<u32>,
    /// Log-probability of the ids, in nats, and of EOS if the hypothesis ended with it. A search that
    /// asks its scorer for unnormalized scores, as greedy search may, gives their sum.
    pub log_prob: f32,
    /// The score that hypotheses are ranked by: [`SearchConfig::score`] of the log-probability
    /// after any penalty for repetition.
    ///
    /// [`SearchConfig::score`]: super::SearchConfig::score
    pub score: f32,
}

/// The special tokens around a target sentence.
#[derive(Clone, Copy, Debug)]
pub struct SpecialTokens {
    /// Beginning of sentence: the first token that the model reads.
    pub bos: u32,
    /// End of sentence: the token that ends a hypothesis.
    pub eos: u32,
}

/// The requirements on the hypotheses for one source sentence.
#[derive(Clone, Debug, Default)]
pub struct Sentence {
    /// Fewest tokens, EOS included.
    pub min_len: usize,
    /// Most tokens, EOS included.
    pub max_len: usize,
    /// The tokens that the model reads after BOS, such as the tag of a language. They cost nothing
    /// and are no part of a hypothesis, but lengths count them.
    pub start: Vec<u32>,
    /// The tokens that every hypothesis begins with.
    pub prefix: Vec<u32>,
    /// Phrases that every hypothesis must contain; none is empty.
    pub constraints: Vec<Vec<u32>>,
    /// Selects the random numbers of sampling: sentences of different numbers draw independently.
    pub number: u64,
    /// Selects the random numbers among sentences of the same number, such as the parts of a line
    /// and the pieces of a part; zeros for the first.
    pub part: [u64; 2],
}

impl Sentence {
    /// The token at this position of every hypothesis: of the start, or of the prefix behind it.
    pub(super) fn forced(&self, position: usize) -> Option<u32> {
        let in_prefix = position.checked_sub(self.start.len());
        let forced = match in_prefix {
            None => self.start.get(position),
            Some(position) => self.prefix.get(position),
        };
        forced.copied()
    }

    /// The number of tokens that every hypothesis has in common.
    pub(super) fn num_forced(&self) -> usize {
        self.start.len() + self.prefix.len()
    }

    /// The key of the random generator that draws the next token of a hypothesis with `len` tokens.
    /// No two sentences share a key if they differ in number or part.
    pub(super) fn draw_key(&self, seed: u64, group: usize, len: usize) -> Vec<u64> {
        let mut key = vec![seed, self.number, group as u64, len as u64];
        // The key of a whole sentence stays short, which keeps the samples of a seed as they are.
        if self.part != [0, 0] {
            key.extend(self.part);
        }
        key
    }
}

/// A hypothesis that has not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfinished {
    /// Index of the sentence.
    pub(super) sentence: usize,
    /// Index of the group within the sentence's beam.
    pub(super) group: usize,
    /// Target ids so far, the start included, without BOS.
    pub(super) ids: Vec<u32>,
    pub(super) log_prob: f32,
    /// The log-probability with penalties for repetition.
    pub(super) score: f32,
    /// For each constraint the number of its tokens that are met.
    pub(super) met: Vec<usize>,
}

impl Unfinished {
    /// The empty hypothesis of a group.
    pub(super) fn new(sentence: usize, group: usize, num_constraints: usize) -> Self {
        Self {
            sentence,
            group,
            met: vec![0; num_constraints],
            ..Self::default()
        }
    }

    /// This hypothesis with one more token.
    pub(super) fn extended(&self, choice: &Continuation, constraints: &[Vec<u32>]) -> Self {
        let mut ids = Vec::with_capacity(self.ids.len() + 1);
        ids.extend_from_slice(&self.ids);
        ids.push(choice.id);
        Self {
            sentence: self.sentence,
            group: self.group,
            ids,
            log_prob: choice.log_prob,
            score: choice.score,
            met: constraint::advance(&self.met, constraints, choice.id),
        }
    }
}

/// A hypothesis and the token that may come next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation {
    /// Index of the hypothesis in its group.
    pub(super) row: usize,
    pub(super) id: u32,
    /// Log-probability of the hypothesis with the token.
    pub(super) log_prob: f32,
    /// The log-probability with penalties for repetition.
    pub(super) score: f32,
    /// The value that continuations are sorted by at this position: the score, changed by diversity
    /// or by the noise of sampling. It is no part of later scores.
    pub(super) sort_key: f32,
}

impl Continuation {
    /// Orders the best first. Ties go to the earlier row, then to the smaller id, so that equal
    /// scores give equal output on every backend.
    pub(super) fn order(left: &Self, right: &Self) -> Ordering {
        right
            .sort_key
            .total_cmp(&left.sort_key)
            .then((left.row, left.id).cmp(&(right.row, right.id)))
    }
}
