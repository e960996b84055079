//! Captions and their images, as pairs whose source is the bytes of the image.

use std::sync::Arc;

use super::{BatchSource, Cached, PairBatch, size_of_rows};
use crate::batching::{BatchingConfig, EpochPlan};
use crate::corpus::CaptionImages;
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::id_cache::IdCache;

/// Batches of captions from an id cache, with their images.
pub struct CaptionSource {
    cached: Cached,
    dropout: Option<BpeDropout>,
    images: Arc<CaptionImages>,
    num_patches: usize,
}

impl CaptionSource {
    /// The captions of `cache`, which is of text that has one side; an image counts as `num_patches` positions in a batch.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if the tokenizer is not plain BPE and `config` asks for BPE dropout.
    pub fn new(
        cache: Arc<IdCache>,
        images: Arc<CaptionImages>,
        config: BatchingConfig,
        num_patches: usize,
    ) -> Result<Self, DataError> {
        let cached = Cached { cache, config };
        let dropout = cached.dropout()?;
        Ok(Self { cached, dropout, images, num_patches })
    }

    /// Positions of a caption, with one mark.
    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config } = &self.cached;
        (self.num_patches, config.padded(config.planned_len(cache.lengths(example).1) + 1))
    }
}

impl BatchSource for CaptionSource {
    type Batch = PairBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<PairBatch, DataError> {
        let mut examples = self.cached.examples(self.dropout.as_ref(), epoch, items)?;
        for (example, &item) in examples.iter_mut().zip(items) {
            example.src = self.images.of_example(item).iter().map(|&byte| u32::from(byte)).collect();
        }
        let Cached { cache, config } = &self.cached;
        let special = cache.tokenizers().tgt.special();
        Ok(PairBatch::new(&examples, special, special, config.pad_multiple))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let real = |item| (self.num_patches, self.cached.cache.lengths(item).1 + 1);
        size_of_rows(items, |item| self.padded(item), real)
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
