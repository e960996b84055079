//! IDS -> HYPOTHESES: beam search, sampling and their variants over anything that scores the next
//! token.
//!
//! [`search`] runs on a [`NextToken`]. [`Incremental`] is one for any model that implements
//! [`crate::Generate`], and for ensembles; in tests it may be a table:
//!
//! ```
//! use polyglow_model::search::{Candidate, Marks, NextToken, SearchConfig, Sentence, search};
//!
//! /// Token 3 is likely at first; after it the end mark, 1.
//! struct Table(Vec<Vec<u32>>);
//!
//! impl NextToken for Table {
//!     fn advance(&mut self, newest: &[u32], count: usize, _: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
//!         self.0.iter_mut().zip(newest).for_each(|(row, &id)| row.push(id));
//!         let best = |row: &Vec<u32>| {
//!             let ids = if row.len() == 1 { [3, 2, 1] } else { [1, 2, 3] };
//!             let log_probs = [0.7f32, 0.2, 0.1].map(f32::ln);
//!             ids.into_iter().zip(log_probs).map(|(id, log_prob)| Candidate { id, log_prob }).take(count).collect()
//!         };
//!         self.0.iter().map(best).collect()
//!     }
//!
//!     fn select(&mut self, rows: &[usize]) {
//!         self.0 = rows.iter().map(|&row| self.0[row].clone()).collect();
//!     }
//! }
//!
//! let sentence = Sentence { max_len: 4, ..Sentence::default() };
//! let config = SearchConfig { beam_size: 2, ..SearchConfig::default() };
//! let found = search(&mut Table(vec![Vec::new()]), &[sentence], &config, Marks { bos: 0, eos: 1 });
//! assert_eq!(found[0][0].ids, [3]);
//! assert!((found[0][0].log_prob - 2.0 * 0.7f32.ln()).abs() < 1e-6);
//! ```

mod beam;
mod config;
mod constraint;
mod incremental;
mod request;
mod rule;
mod sample;
#[cfg(test)]
mod tests;

pub use beam::{Hypothesis, Marks, Sentence, search};
pub use config::{LengthPenalty, SearchConfig, SearchMethod};
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
pub trait NextToken {
    /// Adds one token to each row and returns what may follow in each: the `count` most probable
    /// tokens (all if there are fewer), best first, then those of `wanted[row]` that are not among
    /// them. `wanted` may be empty.
    fn advance(&mut self, newest: &[u32], count: usize, wanted: &[Vec<u32>])
    -> Vec<Vec<Candidate>>;

    /// Keeps these rows, in this order; a row may be named several times or not at all.
    fn select(&mut self, rows: &[usize]);
}
