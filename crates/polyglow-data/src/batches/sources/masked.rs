//! Texts in which some tokens are hidden.
//!
//! An encoder reads the text with hidden tokens and predicts the original ones at the same
//! positions, so that inputs and targets have the same length. The id cache holds the whole text;
//! the hidden tokens are drawn when a batch is made.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::batch::MaskedBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::masking::Masked;
use crate::random::Purpose;

/// Batches of texts with hidden tokens from an id cache of text that has one side. Different tokens
/// are hidden in each epoch.
pub struct MaskedSource {
    cached: Cached,
}

impl MaskedSource {
    /// Makes batches of the texts of `cache`.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer cannot segment words as `config` asks for.
    pub fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let cached = Cached::new(cache, config)?;
        Ok(Self { cached })
    }

    /// The padded positions of a text with EOS, which are those of the tokens to predict, too.
    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config, .. } = &self.cached;
        let len = config.padded(config.planned_len(cache.lengths(example).1) + 1);
        (len, len)
    }
}

impl BatchSource for MaskedSource {
    type Batch = MaskedBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<MaskedBatch, DataError> {
        let examples = self.cached.examples(epoch, items)?;
        let Cached { cache, config, .. } = &self.cached;
        let tokenizer = &cache.tokenizers().tgt;
        let special = tokenizer.special();
        let mut texts = Vec::with_capacity(items.len());
        for (example, &item) in examples.iter().zip(items) {
            let key = Purpose::Row.mix(&[config.seed, epoch, u64::from(item)]);
            let vocab_size = tokenizer.vocab_size();
            texts.push(Masked::new(&example.tgt, special, vocab_size, key));
        }
        Ok(MaskedBatch::new(&texts, special, config.pad_multiple))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        size_of_rows(
            items,
            |item| self.padded(item),
            |item| {
                let len = self.cached.cache.lengths(item).1 + 1;
                (len, len)
            },
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
