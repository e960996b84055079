//! Text as a stream that is cut into windows, for language models whose context spans several
//! lines.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::batch::{Piece, pieces};
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::random::{Purpose, below};

/// The windows into which the text of an id cache is cut; the text has only one side.
///
/// The stream consists of the target positions of all examples, in their order: one for each id and
/// one for the end of sentence. So a model predicts the same ids as from whole examples, but also
/// sees the text before an example. All windows have `context_len` positions, except the first and
/// the last one of each corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    context_len: u64,
    /// The number of positions by which the first window of each corpus is shorter.
    offset: u64,
    /// The positions and the windows of each corpus.
    parts: Vec<(Range<u64>, Range<u32>)>,
}

impl Windows {
    /// Cuts the text at multiples of `context_len`, for evaluation.
    ///
    /// # Errors
    /// [`DataError::Config`] if the text has two sides, or more than 2^32 windows.
    pub fn new(cache: &IdCache, context_len: NonZeroUsize) -> Result<Self, DataError> {
        Self::with_offset(cache, context_len, 0)
    }

    /// Cuts the text at an offset that is random for each epoch, for training.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_epoch(
        cache: &IdCache,
        context_len: NonZeroUsize,
        seed: u64,
        epoch: u64,
    ) -> Result<Self, DataError> {
        let key = Purpose::WindowOffset.mix(&[seed, epoch]);
        let offset = below(key, context_len.get() as u64);
        Self::with_offset(cache, context_len, offset)
    }

    /// Cuts the text of each corpus as if `offset` positions came before it.
    fn with_offset(
        cache: &IdCache,
        context_len: NonZeroUsize,
        offset: u64,
    ) -> Result<Self, DataError> {
        if !cache.is_text() {
            return Err(context_len_error(
                "belongs to text of one side, but this text has sources",
            ));
        }
        let context_len = context_len.get() as u64;
        let mut parts = Vec::new();
        let mut start = 0;
        for (examples, _) in cache.parts() {
            let positions =
                cache.positions_before(examples.start)..cache.positions_before(examples.end);
            let num_positions = positions.end - positions.start;
            let num_windows = if num_positions == 0 {
                0
            } else {
                (offset + num_positions).div_ceil(context_len)
            };
            let Ok(end) = u32::try_from(u64::from(start) + num_windows) else {
                return Err(context_len_error(
                    "is so small that there are too many windows",
                ));
            };
            parts.push((positions, start..end));
            start = end;
        }
        Ok(Self {
            context_len,
            offset,
            parts,
        })
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.parts
            .last()
            .map_or(0, |(_, windows)| windows.end as usize)
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the positions of a window in the stream; an empty range if there is no such window.
    pub fn positions(&self, window: u32) -> Range<u64> {
        let part = self
            .parts
            .iter()
            .find(|(_, windows)| windows.contains(&window));
        let Some((positions, windows)) = part else {
            return 0..0;
        };
        // A window covers these positions of a text that has `offset` more of them at its start.
        let start = u64::from(window - windows.start) * self.context_len;
        let end = start + self.context_len;
        let start = positions.start + start.saturating_sub(self.offset);
        let end = positions.start + end.saturating_sub(self.offset);
        start.min(positions.end)..end.min(positions.end)
    }

    /// Plans the batches of an epoch, each of at most `max_tokens` positions.
    ///
    /// # Errors
    /// [`DataError::LargerThanBatch`] if `context_len`, padded, exceeds `max_tokens`.
    pub fn plan(
        &self,
        cache: &IdCache,
        config: &BatchingConfig,
        epoch: u64,
    ) -> Result<EpochPlan, DataError> {
        let weights = cache.parts().into_iter().map(|(_, weight)| weight);
        let parts: Vec<_> = self
            .parts
            .iter()
            .map(|(_, windows)| windows.clone())
            .zip(weights)
            .collect();
        EpochPlan::new(
            |window| (config.padded(1), config.padded(self.window_len(window))),
            &parts,
            config,
            epoch,
        )
        .map_err(|mut error| {
            if let DataError::LargerThanBatch { example, name, .. } = &mut error {
                *name = format!("window {example} of the text");
            }
            error
        })
    }

    /// Number of positions of a window.
    pub(crate) fn window_len(&self, window: u32) -> usize {
        let Range { start, end } = self.positions(window);
        (end - start) as usize
    }

    /// Reads the first example of a window, and the pieces of all examples in it.
    ///
    /// # Errors
    /// As [`IdCache::example`].
    pub fn read(&self, cache: &IdCache, window: u32) -> Result<(u32, Vec<Piece>), DataError> {
        let positions = self.positions(window);
        let first = cache.example_at(positions.start);
        let pieces = pieces(positions, first, |example| {
            let ids = cache.example(example)?.tgt;
            Ok::<_, DataError>((cache.positions_before(example), ids))
        })?;
        Ok((first, pieces))
    }
}

/// Makes the error that `data.context_len` does not go with the text.
fn context_len_error(problem: &str) -> DataError {
    DataError::Config {
        key: "data.context_len",
        problem: problem.to_owned(),
    }
}
