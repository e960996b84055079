//! Sentence pairs: the sources of a batch are one rectangle, the targets another.
//!
//! Each side of a pair takes one position more than it has ids: EOS for the encoder, and BOS or EOS
//! for the decoder, whose input and output are the target shifted against itself.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::augmentation::Augmentation;
use crate::batch::PairBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;

/// Batches of pairs from an id cache.
#[derive(Clone)]
pub struct PairSource {
    cached: Cached,
    /// Whether batches have the links of aligned text.
    links: bool,
}

impl PairSource {
    /// Makes batches of the pairs of `cache`; with `links` also the attention that their alignments
    /// call for. With new segmentations or an augmentation batches have no links, because these are
    /// between the tokens of the text; neither have examples with noise.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if a tokenizer cannot segment words as `config` asks for.
    pub fn new(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        links: bool,
    ) -> Result<Self, DataError> {
        let cached = Cached::new(cache, config)?;
        let links = links && cached.cache.is_aligned();
        Ok(Self { cached, links })
    }

    /// Changes each example by an augmentation before it is in a batch.
    #[must_use]
    pub fn augmented(mut self, augmentation: Augmentation) -> Self {
        self.cached.augmentation = Some(augmentation);
        self
    }
}

impl BatchSource for PairSource {
    type Batch = PairBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let positions = |example| padded(&self.cached.config, self.cached.lengths(example));
        self.cached.plan(epoch, positions)
    }

    fn plan_in(&self, epoch: u64, step: u64) -> Result<EpochPlan, DataError> {
        let parts = self.cached.cache.parts_in(step);
        let positions = |example| padded(&self.cached.config, self.cached.lengths(example));
        self.cached.plan_parts(&parts, epoch, positions)
    }

    fn changes(&self) -> Vec<u64> {
        self.cached.cache.changes()
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<PairBatch, DataError> {
        let Cached { cache, config, .. } = &self.cached;
        let examples = self.cached.examples(epoch, items)?;
        let tokenizers = cache.tokenizers();
        let batch = PairBatch::new(
            &examples,
            tokenizers.src.special(),
            tokenizers.tgt.special(),
            config.pad_multiple,
        );
        if !self.links || !self.cached.has_tokens_of_cache() {
            return Ok(batch);
        }
        // The words of a source have moved where there is noise.
        let links = items.iter().map(|&example| match cache.noise(example) {
            Some(_) => Ok(Vec::new()),
            None => cache.links(example),
        });
        Ok(batch.with_links(&links.collect::<Result<Vec<_>, _>>()?))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let Cached { cache, config, .. } = &self.cached;
        size_of_rows(
            items,
            |item| padded(config, self.cached.lengths(item)),
            |item| {
                let (src_len, tgt_len) = cache.lengths(item);
                (src_len + 1, tgt_len + 1)
            },
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}

/// Padded source and target positions of an example with this many ids, each side with BOS or EOS.
pub(super) fn padded(config: &BatchingConfig, (src, tgt): (usize, usize)) -> (usize, usize) {
    (
        config.padded(config.planned_len(src) + 1),
        config.padded(config.planned_len(tgt) + 1),
    )
}
