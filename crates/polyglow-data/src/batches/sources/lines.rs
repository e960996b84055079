//! Lines of text that has one side, each a text of its own.
//!
//! A batch has no sources: a decoder alone reads each line after BOS, and predicts it up to EOS, so
//! that only target positions count.

use std::sync::Arc;

use super::{BatchSource, Cached, pairs, size_of_rows};
use crate::augmentation::Augmentation;
use crate::batch::TextBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;

/// Batches of lines from an id cache of text that has one side.
pub struct LineSource {
    cached: Cached,
}

impl LineSource {
    /// Makes batches of the lines of `cache`.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer cannot segment words as `config` asks for.
    pub fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let cached = Cached::new(cache, config)?;
        Ok(Self { cached })
    }

    /// Changes each example by an augmentation before it is in a batch.
    #[must_use]
    pub fn augmented(mut self, augmentation: Augmentation) -> Self {
        self.cached.augmentation = Some(augmentation);
        self
    }
}

impl BatchSource for LineSource {
    type Batch = TextBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let Cached { cache, config, .. } = &self.cached;
        self.cached.plan(epoch, |example| {
            pairs::padded(config, cache.lengths(example))
        })
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<TextBatch, DataError> {
        let examples = self.cached.examples(epoch, items)?;
        let lines: Vec<&[u32]> = examples.iter().map(|example| &*example.tgt).collect();
        let Cached { cache, config, .. } = &self.cached;
        Ok(TextBatch::of_lines(
            &lines,
            cache.tokenizers().tgt.special(),
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let Cached { cache, config, .. } = &self.cached;
        size_of_rows(
            items,
            |item| (0, pairs::padded(config, cache.lengths(item)).1),
            |item| (0, cache.lengths(item).1 + 1),
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
