//! Windows of text that has one side, read as a stream.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{BatchSource, Cached, TextBatch, size_of_rows};
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::padded::Padded;
use crate::special::SpecialIds;
use crate::window::{Piece, Windows};

impl TextBatch {
    /// Windows of text, each a row of pieces.
    ///
    /// At each position the input is the id before the one that is predicted, or begin of sentence:
    /// what [`TextBatch::of_lines`] does for whole lines, so that windows which cover a text
    /// predict the same ids, each once.
    pub fn of_windows(windows: &[Vec<Piece>], special: SpecialIds, pad_multiple: usize) -> Self {
        let len = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.positions.len()).sum();
        let longest = windows.iter().map(len).max().unwrap_or(0);
        let mut inputs = Padded::with_room(windows.len(), longest, pad_multiple);
        let mut targets = inputs.clone();
        for pieces in windows {
            let framed = pieces
                .iter()
                .map(|piece| [&[special.bos], &*piece.ids, &[special.eos]].concat());
            let framed: Vec<Vec<u32>> = framed.collect();
            let moved = |by: usize| -> Vec<&[u32]> {
                let ranges = pieces
                    .iter()
                    .map(|Piece { positions, .. }| positions.start + by..positions.end + by);
                framed
                    .iter()
                    .zip(ranges)
                    .map(|(ids, range)| &ids[range])
                    .collect()
            };
            inputs.push(&moved(0), special.pad);
            targets.push(&moved(1), special.pad);
        }
        Self { inputs, targets }
    }
}

/// Batches of windows over an id cache, cut somewhere else in each epoch.
pub struct WindowSource {
    cached: Cached,
    context_len: NonZeroUsize,
}

impl WindowSource {
    /// Windows of `context_len` positions of the text in `cache`.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if `config` asks for BPE dropout: windows are cut by the number of
    /// tokens, which it changes.
    pub fn new(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        context_len: NonZeroUsize,
    ) -> Result<Self, DataError> {
        let cached = Cached { cache, config };
        cached.refuse_dropout("windows are cut by the number of tokens, which dropout changes")?;
        Ok(Self {
            cached,
            context_len,
        })
    }

    fn windows(&self, epoch: u64) -> Result<Windows, DataError> {
        Windows::of_epoch(
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
        let Cached { cache, config } = &self.cached;
        let windows = self.windows(epoch)?;
        let rows = items
            .iter()
            .map(|&window| Ok(windows.read(cache, window)?.1));
        let rows: Vec<Vec<Piece>> = rows.collect::<Result<_, DataError>>()?;
        Ok(TextBatch::of_windows(
            &rows,
            cache.tokenizers().tgt.special(),
            config.pad_multiple,
        ))
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        // An epoch that was planned has windows.
        let Ok(windows) = self.windows(epoch) else {
            return ([0; 3], 0);
        };
        let padded = |window| (0, self.cached.config.padded(windows.len_of(window)));
        size_of_rows(items, padded, |window| (0, windows.len_of(window)))
    }

    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32> {
        let Ok(windows) = self.windows(epoch) else {
            return Vec::new();
        };
        items
            .iter()
            .map(|&window| {
                self.cached
                    .cache
                    .example_at(windows.positions(window).start)
            })
            .collect()
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds {
        pad: 9,
        bos: 7,
        eos: 8,
        unk: 6,
    };

    #[test]
    fn windows_over_whole_lines_are_the_lines() {
        let whole = |ids: &[u32]| {
            vec![Piece {
                ids: ids.to_vec(),
                positions: 0..ids.len() + 1,
            }]
        };
        let windows = [whole(&[20]), whole(&[21, 22]), whole(&[])];
        let lines: [&[u32]; 3] = [&[20], &[21, 22], &[]];
        assert_eq!(
            TextBatch::of_windows(&windows, SPECIAL, 4),
            TextBatch::of_lines(&lines, SPECIAL, 4)
        );
    }

    #[test]
    fn a_window_goes_on_where_the_one_before_it_ended() {
        let piece = |ids: &[u32], positions| Piece {
            ids: ids.to_vec(),
            positions,
        };
        let windows = [
            vec![
                piece(&[20, 21], 0..3),
                piece(&[], 0..1),
                piece(&[22, 23, 24], 0..2),
            ],
            vec![piece(&[22, 23, 24], 2..4)],
        ];
        let TextBatch { inputs, targets } = TextBatch::of_windows(&windows, SPECIAL, 1);
        assert_eq!(inputs.ids, [7, 20, 21, 7, 7, 22, 23, 24, 9, 9, 9, 9]);
        assert_eq!(targets.ids, [20, 21, 8, 8, 22, 23, 24, 8, 9, 9, 9, 9]);
        assert_eq!(targets.lengths, [6, 2]);
    }
}
