//! IDS -> HYPOTHESES: beam search, sampling and their relatives over anything that can say what comes next.

mod beam;
mod config;
mod constraint;
mod incremental;
mod rule;
mod sample;
#[cfg(test)]
mod tests;

pub use beam::{Hypothesis, Marks, Sentence, search};
pub use config::{LengthPenalty, SearchConfig, SearchMethod};
pub use incremental::Incremental;

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its log-probability given everything before it, in nats.
    pub log_prob: f32,
}

/// Something that writes several rows of tokens, one position at a time: a model in use, a table in tests.
pub trait NextToken {
    /// Adds one token to each row and returns what may follow in each: the `count` most probable tokens (all if there
    /// are fewer), best first, then those of `wanted[row]` that are not among them. `wanted` may be empty.
    fn advance(&mut self, newest: &[u32], count: usize, wanted: &[Vec<u32>]) -> Vec<Vec<Candidate>>;

    /// Keeps these rows, in this order; a row may be named several times or not at all.
    fn select(&mut self, rows: &[usize]);
}
