//! Windows of text that has one side, read as a stream.
//!
//! An item is a window and not an example: a window may have pieces of several examples, and a long
//! example may be spread over several windows.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::batch::Piece;
use crate::batch::TextBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::window::Windows;

/// Batches of windows over an id cache, cut at different positions in each epoch.
pub struct WindowSource {
    cached: Cached,
    context_len: NonZeroUsize,
}

impl WindowSource {
    /// Makes batches of windows of `context_len` positions of the text in `cache`.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if `config` asks for new segmentations: windows are cut by
    /// the number of tokens, which they change.
    pub fn new(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        context_len: NonZeroUsize,
    ) -> Result<Self, DataError> {
        let problem = "windows are cut by the number of tokens, which new segmentations change";
        let cached = Cached::with_fixed_tokens(cache, config, problem)?;
        Ok(Self {
            cached,
            context_len,
        })
    }

    /// The windows of an epoch, which are cut again for each batch: that takes no time.
    fn windows(&self, epoch: u64) -> Result<Windows, DataError> {
        Windows::for_epoch(
            &self.cached.cache,
            self.context_len,
            self.cached.config.seed,
            epoch,
        )
    }
}

impl BatchSource for WindowSource {
    type Batch = TextBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.windows(epoch)?
            .plan(&self.cached.cache, &self.cached.config, epoch)
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<TextBatch, DataError> {
        let Cached { cache, config, .. } = &self.cached;
        let windows = self.windows(epoch)?;
        let mut rows: Vec<Vec<Piece>> = Vec::with_capacity(items.len());
        for &window in items {
            let (_, pieces) = windows.read(cache, window)?;
            rows.push(pieces);
        }
        Ok(TextBatch::of_windows(
            &rows,
            cache.tokenizers().tgt.special(),
            config.pad_multiple,
        ))
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        // An epoch that was planned has windows: the same cut has succeeded before.
        let Ok(windows) = self.windows(epoch) else {
            return ([0; 3], 0);
        };
        let config = &self.cached.config;
        size_of_rows(
            items,
            |window| (0, config.padded(windows.window_len(window))),
            |window| (0, windows.window_len(window)),
        )
    }

    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32> {
        let Ok(windows) = self.windows(epoch) else {
            return Vec::new();
        };
        let mut examples = Vec::with_capacity(items.len());
        for &window in items {
            let start = windows.positions(window).start;
            examples.push(self.cached.cache.example_at(start));
        }
        examples
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
