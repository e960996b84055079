//! Sizes of batches, and random batches of a size, to try a device with.

use std::fmt;

use polyglow_data::batch::Batch;
use polyglow_data::epoch::Epoch;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::random::mix;
use polyglow_data::special::SpecialIds;
use polyglow_model::{Model, Task};
use serde::Serialize;

/// The special tokens of random sentences, as in the vocabularies that are learned here.
pub const SPECIAL: SpecialIds = SpecialIds::LEARNED;

/// A batch, with its padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BatchShape {
    /// Sentence pairs.
    pub rows: usize,
    /// Padded source length, in tokens.
    pub src_len: usize,
    /// Padded target length, in tokens.
    pub tgt_len: usize,
}

impl BatchShape {
    /// The shape of a batch.
    pub fn of(batch: &Batch) -> Self {
        Self { rows: batch.batch_size, src_len: batch.src_len, tgt_len: batch.tgt_len }
    }

    /// The shapes of the batches of an epoch, in their order.
    pub fn of_epoch(epoch: &Epoch, cache: &IdCache) -> impl Iterator<Item = Self> {
        (0..epoch.len()).map(|position| {
            let [rows, src_len, tgt_len] = epoch.shape(cache, position);
            Self { rows, src_len, tgt_len }
        })
    }

    /// All positions of source and target together.
    pub fn positions(&self) -> usize {
        self.rows * (self.src_len + self.tgt_len)
    }

    /// Random sentences of these lengths, without padding.
    pub fn random_batch(&self, vocab_size: usize) -> Batch {
        let words = |side: u64, row: usize, len: usize| -> Vec<u32> {
            (1..len).map(|place| word(&[side, row as u64, place as u64], vocab_size)).collect()
        };
        let example = |row: usize| Example { src: words(0, row, self.src_len), tgt: words(1, row, self.tgt_len) };
        let examples: Vec<Example> = (0..self.rows).map(example).collect();
        Batch::new(&examples, SPECIAL, SPECIAL, 1)
    }

    /// [`Self::random_batch`] of ids and targets that a model has.
    pub fn random_batch_for(&self, model: &Model) -> Batch {
        let mut batch = self.random_batch(model.vocabulary().smaller());
        if model.task() == Task::Words {
            // Of the two classes.
            batch.tgt_out.fill(1);
        }
        batch
    }
}

impl fmt::Display for BatchShape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, src_len, tgt_len } = self;
        write!(formatter, "{rows} pairs, padded to {src_len} source and {tgt_len} target tokens")
    }
}

/// An id that is no special token's, as a function of `key`; of a vocabulary without any other, the unknown word.
pub fn word(key: &[u64], vocab_size: usize) -> u32 {
    let words = (vocab_size as u64).saturating_sub(u64::from(SPECIAL.unk) + 1).max(1);
    (SPECIAL.unk + 1 + (mix(key) % words) as u32).min(vocab_size as u32 - 1)
}
