//! Sizes of batches, and random pairs of a size, to try a device with.

use std::fmt;

use polyglow_data::batch::PairBatch;
use polyglow_data::example::Example;
use polyglow_data::random::mix;
use polyglow_data::special::SpecialIds;
use serde::Serialize;

/// The special tokens of random sentences, as in the vocabularies that are learned here.
pub const SPECIAL: SpecialIds = SpecialIds::LEARNED;

/// A batch, with its padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BatchShape {
    /// Examples.
    pub rows: usize,
    /// Padded length of the source, in positions; 0 for a text of one side.
    pub src_len: usize,
    /// Padded length of what is predicted, in positions.
    pub tgt_len: usize,
}

impl From<[usize; 3]> for BatchShape {
    fn from([rows, src_len, tgt_len]: [usize; 3]) -> Self {
        Self {
            rows,
            src_len,
            tgt_len,
        }
    }
}

impl BatchShape {
    /// Returns the number of positions, padding included.
    pub fn positions(&self) -> usize {
        self.rows * (self.src_len + self.tgt_len)
    }

    /// Makes random sentences of these lengths, the same at each call, without padding.
    pub fn random_pairs(&self, vocab_size: usize) -> PairBatch {
        let mut examples = Vec::with_capacity(self.rows);
        for row in 0..self.rows as u64 {
            examples.push(Example {
                src: words([0, row], self.src_len, vocab_size),
                tgt: words([1, row], self.tgt_len, vocab_size),
            });
        }
        PairBatch::new(&examples, SPECIAL, SPECIAL, 1)
    }
}

impl fmt::Display for BatchShape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            src_len,
            tgt_len,
        } = self;
        write!(
            formatter,
            "{rows} rows, padded to {src_len} source and {tgt_len} target positions"
        )
    }
}

/// Returns the ids of a side of a row, which with its end-of-sentence token takes up `len`
/// positions.
fn words([side, row]: [u64; 2], len: usize, vocab_size: usize) -> Vec<u32> {
    (1..len as u64)
        .map(|position| word(&[side, row, position], vocab_size))
        .collect()
}

/// Returns an id as a function of `key`: that of no special token, unless the vocabulary has no
/// other, where it is that of the unknown word.
pub fn word(key: &[u64], vocab_size: usize) -> u32 {
    let words = (vocab_size as u64)
        .saturating_sub(u64::from(SPECIAL.unk) + 1)
        .max(1);
    (SPECIAL.unk + 1 + (mix(key) % words) as u32).min(vocab_size as u32 - 1)
}
