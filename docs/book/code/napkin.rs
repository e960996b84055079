//! A language model that fits on a napkin, for the chapter on search.

use polyglow_model::search::{Candidate, Scorer};

/// Begin of sentence.
pub const BOS: u32 = 0;
/// End of sentence.
pub const EOS: u32 = 1;
/// A German article, masculine.
pub const DER: u32 = 2;
/// The same, feminine.
pub const DIE: u32 = 3;
/// A dog, masculine.
pub const HUND: u32 = 4;

/// A table: what comes next depends on the last token alone, so there is nothing to remember.
#[derive(Clone, Copy, Debug)]
pub struct Napkin;

impl Scorer for Napkin {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        _requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        let after = |token: &u32| match *token {
            BOS => vec![(DIE, 0.6), (DER, 0.4)],
            DER => vec![(HUND, 0.9), (EOS, 0.1)],
            DIE => vec![(HUND, 0.5), (EOS, 0.4), (DER, 0.1)],
            _ => vec![(EOS, 0.8), (DER, 0.2)],
        };
        let candidate = |(id, probability): (u32, f32)| Candidate {
            id,
            log_prob: probability.ln(),
        };
        newest
            .iter()
            .map(|token| {
                after(token)
                    .into_iter()
                    .take(count)
                    .map(candidate)
                    .collect()
            })
            .collect()
    }

    fn select(&mut self, _rows: &[usize]) {}
}
