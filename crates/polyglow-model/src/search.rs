//! From ids to hypotheses: beam search, sampling and their variants over anything that scores the
//! next token.
//!
//! [`search`] runs on a [`Scorer`]. [`Incremental`] is one for any model that implements
//! [`crate::Generate`], and for ensembles; in tests it may be a table:
//!
//! ```
//! use polyglow_model::search::{
//!     Candidate, Scorer, SearchConfig, Sentence, SpecialTokens, search,
//! };
//!
//! /// Token 3 is likely at first; after it EOS, token 1. The table keeps the ids of each row.
//! struct Table(Vec<Vec<u32>>);
//!
//! impl Scorer for Table {
//!     fn advance(&mut self, newest: &[u32], count: usize, _: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
//!         let mut candidates = Vec::new();
//!         for (row, &id) in self.0.iter_mut().zip(newest) {
//!             row.push(id);
//!             let ids = if row.len() == 1 { [3, 2, 1] } else { [1, 2, 3] };
//!             let log_probs = [0.7f32, 0.2, 0.1].map(f32::ln);
//!             let best = ids.into_iter().zip(log_probs).take(count);
//!             candidates.push(best.map(|(id, log_prob)| Candidate { id, log_prob }).collect());
//!         }
//!         candidates
//!     }
//!
//!     fn select(&mut self, rows: &[usize]) {
//!         self.0 = rows.iter().map(|&row| self.0[row].clone()).collect();
//!     }
//! }
//!
//! let mut table = Table(vec![Vec::new()]);
//! let sentence = Sentence { max_len: 4, ..Sentence::default() };
//! let config = SearchConfig { beam_size: 2, ..SearchConfig::default() };
//! let special = SpecialTokens { bos: 0, eos: 1 };
//! let hypotheses = search(&mut table, &[sentence], &config, special).remove(0);
//! assert_eq!(hypotheses[0].ids, [3]);
//! assert!((hypotheses[0].log_prob - 2.0 * 0.7f32.ln()).abs() < 1e-6);
//! ```

mod beam;
mod config;
mod constraint;
mod hypothesis;
mod incremental;
mod request;
mod rule;
mod sample;
#[cfg(test)]
mod tests;

pub use beam::search;
pub use config::{LengthPenalty, SearchConfig, SearchMethod};
pub use hypothesis::{Hypothesis, Sentence, SpecialTokens};
pub use incremental::Incremental;
pub use request::SearchRequest;

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its log-probability given everything before it, in nats.
    pub log_prob: f32,
}

/// A scorer of next tokens for several rows: a model ([`Incremental`]), or a table in tests.
pub trait Scorer {
    /// Adds one token to each row and returns the candidates that may follow in each: the `count`
    /// most probable tokens (all if there are fewer), best first, then those of `requested[row]`
    /// that are not among them. `requested` may be empty if no row requests any.
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>>;

    /// Keeps these rows, in this order; a row may be named several times or not at all.
    fn select(&mut self, rows: &[usize]);
}
