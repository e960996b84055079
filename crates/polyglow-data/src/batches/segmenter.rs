//! Different segmentations of the same words in every epoch, by which a model learns what tokens are
//! made of: BPE dropout, and pieces that are drawn from a unigram model.

mod merges;
mod pieces;

use serde::de::DeserializeOwned;

use crate::batching::BatchingConfig;
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::random::{Purpose, mix, unit};
use crate::tokenizer::{Segmentation, Tokenizer, Tokenizers, WORD_START};

use merges::MergeTable;
use pieces::PieceTable;

/// Segmentations that are drawn until one is short enough; after these the tokenizer's own is taken.
const MAX_DRAWS: u64 = 8;

/// Segments examples anew, from their ids; the text is not needed.
pub struct Segmenter {
    src: Table,
    /// `None` if targets stay as they are.
    tgt: Option<Table>,
}

/// The table that segmentations of a side are drawn from.
enum Table {
    Merges(MergeTable),
    Pieces(PieceTable),
}

impl Segmenter {
    /// Prepares what `segmentation` asks for, on both sides; `None` if that is [`Segmentation::Fixed`].
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer of a side is of another kind.
    pub fn new(
        tokenizers: &Tokenizers,
        segmentation: Segmentation,
    ) -> Result<Option<Self>, DataError> {
        let tgt = Table::new(&tokenizers.tgt, segmentation)?;
        let segmenter = Self::of_sources(tokenizers, segmentation)?;
        Ok(segmenter.map(|segmenter| Self { tgt, ..segmenter }))
    }

    /// As [`Self::new`], for sources alone: targets, such as labels, stay as they are.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer of sources is of another kind.
    pub fn of_sources(
        tokenizers: &Tokenizers,
        segmentation: Segmentation,
    ) -> Result<Option<Self>, DataError> {
        let src = Table::new(&tokenizers.src, segmentation)?;
        Ok(src.map(|src| Self { src, tgt: None }))
    }

    /// Reads `example` and segments it again: a pure function of the seed, the epoch and the
    /// example.
    ///
    /// A segmentation longer than [`BatchingConfig::planned_len`] is drawn again, so that batches
    /// keep their planned size.
    ///
    /// # Errors
    /// As [`IdCache::example`].
    pub fn sample(
        &self,
        cache: &IdCache,
        config: &BatchingConfig,
        example: u32,
        epoch: u64,
    ) -> Result<Example, DataError> {
        let marked = cache.marked_example(example)?;
        Ok(self.segment(&marked, config, example, epoch))
    }

    /// Segments the ids of an example again, which are marked where words begin.
    pub(crate) fn segment(
        &self,
        marked: &Example,
        config: &BatchingConfig,
        example: u32,
        epoch: u64,
    ) -> Example {
        let row = [config.seed, epoch, u64::from(example)];
        let limits = [&marked.src, &marked.tgt].map(|side| config.planned_len(side.len()));
        let src = self
            .src
            .sample_within(&marked.src, limits[0], Purpose::SrcSegmentation, row);
        let tgt = match &self.tgt {
            Some(table) => {
                table.sample_within(&marked.tgt, limits[1], Purpose::TgtSegmentation, row)
            }
            None => unmarked(&marked.tgt),
        };
        Example { src, tgt }
    }
}

/// Returns ids without the marks of where words begin.
fn unmarked(marked: &[u32]) -> Vec<u32> {
    marked.iter().map(|id| id & !WORD_START).collect()
}

impl Table {
    /// Reads what `segmentation` needs of a tokenizer; `None` if that is nothing.
    fn new(tokenizer: &Tokenizer, segmentation: Segmentation) -> Result<Option<Self>, DataError> {
        Ok(match segmentation {
            Segmentation::Fixed => None,
            Segmentation::Dropout(probability) => {
                Some(Self::Merges(MergeTable::new(tokenizer, probability)?))
            }
            Segmentation::Sampling(alpha) => Some(Self::Pieces(PieceTable::new(tokenizer, alpha)?)),
        })
    }

    /// Segments a side again, into at most `limit` ids. `row` is the seed, the epoch and the example.
    fn sample_within(
        &self,
        marked: &[u32],
        limit: usize,
        purpose: Purpose,
        [seed, epoch, example]: [u64; 3],
    ) -> Vec<u32> {
        for draw in 0..MAX_DRAWS {
            let sampled = self.sample(marked, purpose.mix(&[seed, epoch, example, draw]));
            if sampled.len() <= limit {
                return sampled;
            }
        }
        unmarked(marked)
    }

    /// Segments the words of `marked` ids again.
    fn sample(&self, marked: &[u32], key: u64) -> Vec<u32> {
        let mut draws = Draws { key, count: 0 };
        let mut sampled = Vec::with_capacity(marked.len() + marked.len() / 2);
        // No token crosses the boundary of a word.
        for word in marked.chunk_by(|_, next| next & WORD_START == 0) {
            let word = word.iter().map(|id| id & !WORD_START);
            match self {
                Self::Merges(table) => table.sample(word, &mut draws, &mut sampled),
                Self::Pieces(table) => table.sample(word, &mut draws, &mut sampled),
            }
        }
        sampled
    }
}

/// Reads the model in the `tokenizer.json` of a tokenizer.
///
/// # Errors
/// [`DataError::Segmentation`] says `problem` if it is not of that form.
fn read_model<T: DeserializeOwned>(tokenizer: &Tokenizer, problem: &str) -> Result<T, DataError> {
    serde_json::from_str(&tokenizer.to_json()?).map_err(|_| impossible(problem))
}

/// Makes the error that the words of a tokenizer cannot be segmented again.
fn impossible(problem: &str) -> DataError {
    DataError::Segmentation {
        problem: problem.to_owned(),
    }
}

/// Random numbers, one after the other.
struct Draws {
    key: u64,
    count: u64,
}

impl Draws {
    /// Draws a number in `[0, 1)`.
    fn next(&mut self) -> f64 {
        self.count += 1;
        unit(mix(&[self.key, self.count]))
    }
}
