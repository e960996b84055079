//! Words, and candidates for words beside them: many rows for a line.

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
    /// Counts the words of `cache`, by whose frequencies skip-grams are drawn.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if `batching` asks for BPE dropout; the cache cannot be read.
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
        let cached = Cached {
            cache,
            config: batching,
        };
        cached.refuse_dropout(
            "skip-grams are drawn by the frequencies of tokens, which dropout changes",
        )?;
        Ok(Self {
            cached,
            config,
            sampler,
        })
    }

    /// Rows that a line gives at most.
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
        let padded = |len| self.cached.config.padded(len);
        self.cached.plan(epoch, |example| {
            let rows = self.most_rows(example);
            (padded(rows), padded(rows * self.config.candidates()))
        })
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<SkipGramBatch, DataError> {
        let Cached { cache, config } = &self.cached;
        let mut rows = Vec::new();
        for &item in items {
            rows.extend(self.sampler.rows(
                &cache.example(item)?.tgt,
                &[config.seed, epoch, u64::from(item)],
            ));
        }
        if rows.is_empty() {
            rows.push(self.sampler.nothing());
        }
        Ok(SkipGramBatch::new(&rows))
    }

    /// Always one: each would have gradients of all vectors, of which it changes few.
    fn shards(&self, epoch: u64, items: &[u32], _: usize) -> Result<Vec<SkipGramBatch>, DataError> {
        Ok(vec![self.batch(epoch, items)?])
    }

    /// About four times what a batch has: of a word's window and of frequent words, only what is
    /// drawn is in it.
    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let most = items.iter().map(|&item| self.most_rows(item));
        let padded: usize = most
            .clone()
            .map(|rows| self.cached.config.padded(rows))
            .sum();
        let real = most.map(|rows| rows * (1 + self.config.candidates())).sum();
        ([padded, 1, self.config.candidates()], real)
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
