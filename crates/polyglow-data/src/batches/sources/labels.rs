//! Texts with a label each.
//!
//! The text of an example is its source, and its label the single id of its target.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::augmentation::Augmentation;
use crate::batch::LabelBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::segmenter::Segmenter;

/// Batches of labeled texts from an id cache.
pub struct LabelSource {
    cached: Cached,
}

impl LabelSource {
    /// Makes batches of the texts of `cache`, whose targets are labels.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer of texts cannot segment words as `config` asks for.
    pub fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let segmenter = Segmenter::of_sources(cache.tokenizers(), config.segmentation)?;
        let cached = Cached::with_segmenter(cache, config, segmenter);
        Ok(Self { cached })
    }

    /// Changes each example by an augmentation before it is in a batch.
    #[must_use]
    pub fn augmented(mut self, augmentation: Augmentation) -> Self {
        self.cached.augmentation = Some(augmentation);
        self
    }

    /// The padded positions of a text with EOS, and of its label.
    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config, .. } = &self.cached;
        (
            config.padded(config.planned_len(cache.lengths(example).0) + 1),
            config.padded(1),
        )
    }
}

impl BatchSource for LabelSource {
    type Batch = LabelBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<LabelBatch, DataError> {
        let examples = self.cached.examples(epoch, items)?;
        let Cached { cache, config, .. } = &self.cached;
        let tokenizers = cache.tokenizers();
        Ok(LabelBatch::new(
            &examples,
            tokenizers.src.special(),
            tokenizers.tgt.special().unk,
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        size_of_rows(
            items,
            |item| (self.padded(item).0, 1),
            |item| (self.cached.cache.lengths(item).0 + 1, 1),
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
