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
    /// All positions together.
    pub fn positions(&self) -> usize {
        self.rows * (self.src_len + self.tgt_len)
    }

    /// Random sentences of these lengths, without padding.
    pub fn random_pairs(&self, vocab_size: usize) -> PairBatch {
        let words = |side: u64, row: usize, len: usize| -> Vec<u32> {
            (1..len)
                .map(|place| word(&[side, row as u64, place as u64], vocab_size))
                .collect()
        };
        let example = |row: usize| Example {
            src: words(0, row, self.src_len),
            tgt: words(1, row, self.tgt_len),
        };
        let examples: Vec<Example> = (0..self.rows).map(example).collect();
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

/// An id of no special token, as a function of `key`; if the vocabulary has no other, the unknown
/// word.
pub fn word(key: &[u64], vocab_size: usize) -> u32 {
    let words = (vocab_size as u64)
        .saturating_sub(u64::from(SPECIAL.unk) + 1)
        .max(1);
    (SPECIAL.unk + 1 + (mix(key) % words) as u32).min(vocab_size as u32 - 1)
}
