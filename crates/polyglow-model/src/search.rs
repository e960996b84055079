//! IDS -> HYPOTHESES: greedy and beam search over anything that can say what comes next.

mod beam;
mod config;
mod incremental;

pub use beam::{Hypothesis, Marks, beam_search};
pub use config::{LengthPenalty, SearchConfig};
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
    /// Adds one token to each row and returns the `count` most probable tokens to follow in each, best first.
    fn advance(&mut self, newest: &[u32], count: usize) -> Vec<Vec<Candidate>>;

    /// Keeps these rows, in this order; a row may be named several times or not at all.
    fn select(&mut self, rows: &[usize]);
}
