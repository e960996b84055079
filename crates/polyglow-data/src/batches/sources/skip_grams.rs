//! Words, and candidates for their context words: many rows for a line.
//!
//! An item is a line, which gives up to `2 * window` rows for each of its words. Their number is
//! known only once they are drawn, so that batches are planned by its upper bound.

use std::sync::Arc;

use super::{BatchSource, Cached};
use crate::batch::SkipGramBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::skip_gram::{SkipGramSampler, SkipGrams};

/// Batches of skip-grams from an id cache of text that has one side.
pub struct SkipGramSource {
    cached: Cached,
    config: SkipGrams,
    sampler: SkipGramSampler,
}

impl SkipGramSource {
    /// Counts the words of `cache`, because skip-grams are drawn by their frequencies.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if `batching` asks for new segmentations; the cache cannot be read.
    pub fn new(
        cache: Arc<IdCache>,
        batching: BatchingConfig,
        config: SkipGrams,
    ) -> Result<Self, DataError> {
        let tokenizer = &cache.tokenizers().tgt;
        let lines =
            (0..cache.len() as u32).map(|example| Ok::<_, DataError>(cache.example(example)?.tgt));
        let sampler =
            SkipGramSampler::count(config, tokenizer.special(), tokenizer.vocab_size(), lines)?;
        let problem =
            "skip-grams are drawn by the frequencies of tokens, which new segmentations change";
        let cached = Cached::with_fixed_tokens(cache, batching, problem)?;
        Ok(Self {
            cached,
            config,
            sampler,
        })
    }

    /// The largest number of rows that a line can give.
    fn most_rows(&self, example: u32) -> usize {
        self.config
            .most_pairs(self.cached.cache.lengths(example).1)
            .max(1)
    }
}

impl BatchSource for SkipGramSource {
    type Batch = SkipGramBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let config = &self.cached.config;
        self.cached.plan(epoch, |example| {
            let rows = self.most_rows(example);
            let candidates = rows * self.config.candidates();
            (config.padded(rows), config.padded(candidates))
        })
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<SkipGramBatch, DataError> {
        let Cached { cache, config, .. } = &self.cached;
        let mut rows = Vec::new();
        for &item in items {
            let line = cache.example(item)?.tgt;
            let key = [config.seed, epoch, u64::from(item)];
            rows.extend(self.sampler.rows(&line, &key));
        }
        // All words of a few short lines may be left out as too frequent.
        if rows.is_empty() {
            rows.push(self.sampler.nothing());
        }
        Ok(SkipGramBatch::new(&rows))
    }

    /// Makes a single shard: each would have gradients of all vectors, of which it changes few.
    fn shards(&self, epoch: u64, items: &[u32], _: usize) -> Result<Vec<SkipGramBatch>, DataError> {
        Ok(vec![self.batch(epoch, items)?])
    }

    /// Returns about four times the rows of the batch, as if no word of a window and no frequent
    /// word were left out by chance.
    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let candidates = self.config.candidates();
        let mut padded = 0;
        let mut real = 0;
        for &item in items {
            let rows = self.most_rows(item);
            padded += self.cached.config.padded(rows);
            real += rows * (1 + candidates);
        }
        ([padded, 1, candidates], real)
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
