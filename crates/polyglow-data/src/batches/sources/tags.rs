//! Texts with a tag for each word.
//!
//! The text of an example is its source, and its target has an id for each tag. The links of the id
//! cache lead from the tokens of a word to its tag.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::batch::TagBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;

/// Batches of tagged texts from an id cache.
pub struct TagSource {
    cached: Cached,
}

impl TagSource {
    /// Makes batches of the texts of `cache`, whose targets are tags.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if `config` asks for new segmentations: tags belong to the tokens
    /// that the tokenizer makes.
    pub fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let problem = "tags belong to the tokens that the tokenizer makes";
        let cached = Cached::with_fixed_tokens(cache, config, problem)?;
        Ok(Self { cached })
    }

    /// The padded positions of a text with EOS, which are those of its tags, too.
    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config, .. } = &self.cached;
        let len = config.padded(config.planned_len(cache.lengths(example).0) + 1);
        (len, len)
    }
}

impl BatchSource for TagSource {
    type Batch = TagBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<TagBatch, DataError> {
        let examples = self.cached.examples(epoch, items)?;
        let Cached { cache, config, .. } = &self.cached;
        let mut links = Vec::with_capacity(items.len());
        for &item in items {
            links.push(cache.links(item)?);
        }
        let tokenizers = cache.tokenizers();
        Ok(TagBatch::new(
            &examples,
            &links,
            tokenizers.src.special(),
            tokenizers.tgt.special().pad,
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let cache = &self.cached.cache;
        size_of_rows(
            items,
            |item| self.padded(item),
            |item| (cache.lengths(item).0 + 1, cache.lengths(item).1),
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
