//! Where batches come from: one file per kind of batch, from examples to rectangles of ids.
//!
//! A source says which items form which batch of an epoch and makes these batches. All it makes is
//! a pure function of the data, the seed, the epoch and the items, so that a stream can begin
//! anywhere.

mod captions;
mod images;
mod labels;
mod lines;
mod masked;
mod pairs;
mod sharded;
mod skip_grams;
mod tags;
mod windows;

use std::sync::Arc;

use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;

pub use captions::{CaptionImages, CaptionSource};
pub use images::ImageSource;
pub use labels::LabelSource;
pub use lines::LineSource;
pub use masked::MaskedSource;
pub use pairs::PairSource;
pub use sharded::{Sharded, num_shards};
pub use skip_grams::SkipGramSource;
pub use tags::TagSource;
pub use windows::WindowSource;

/// What a stream of training batches is made from.
pub trait BatchSource: Send + Sync + 'static {
    /// A micro-batch in host memory.
    type Batch: Send + Sync + 'static;
    /// What can go wrong.
    type Error: From<DataError> + Send + 'static;

    /// Which items form which batch of the epoch number `epoch`, counted from 0. What an item is,
    /// such as an example or a window, is the source's own affair.
    ///
    /// # Errors
    /// The data cannot be read, or one item alone is larger than a batch.
    fn plan(&self, epoch: u64) -> Result<EpochPlan, Self::Error>;

    /// The batch of some items in an epoch.
    ///
    /// # Errors
    /// The data cannot be read.
    fn batch(&self, epoch: u64, items: &[u32]) -> Result<Self::Batch, Self::Error>;

    /// The batch of some items in `count` parts, or fewer, which are worked on side by side: each
    /// of some of the items, and like a batch.
    ///
    /// # Errors
    /// As [`Self::batch`].
    fn shards(
        &self,
        epoch: u64,
        items: &[u32],
        count: usize,
    ) -> Result<Vec<Self::Batch>, Self::Error> {
        sharded::runs(items, count)
            .map(|items| self.batch(epoch, items))
            .collect()
    }

    /// Rows, input positions and target positions of the batch of some items, padding included, at
    /// most, and how many positions are no padding. Known without making the batch.
    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize);

    /// The example in which each item begins, to say where it is from.
    fn examples(&self, _epoch: u64, items: &[u32]) -> Vec<u32> {
        items.to_vec()
    }

    /// Where an example is from, for messages: a file and a line.
    fn origin(&self, example: u32) -> String {
        format!("example {example}")
    }
}

/// What all sources that read an id cache share.
#[derive(Clone)]
pub(crate) struct Cached {
    cache: Arc<IdCache>,
    config: BatchingConfig,
}

impl Cached {
    /// Plans an epoch of whole examples, which take up as many input and target positions as
    /// `positions` says.
    fn plan(
        &self,
        epoch: u64,
        positions: impl Fn(u32) -> (usize, usize) + Sync,
    ) -> Result<EpochPlan, DataError> {
        EpochPlan::new(positions, &self.cache.parts(), &self.config, epoch).map_err(|mut error| {
            if let DataError::LargerThanBatch { example, place, .. } = &mut error {
                *place = self.origin(*example);
            }
            error
        })
    }

    /// The ids of examples, with other segmentations of their words if there is dropout.
    fn examples(
        &self,
        dropout: Option<&BpeDropout>,
        epoch: u64,
        items: &[u32],
    ) -> Result<Vec<Example>, DataError> {
        let read = |&example: &u32| match dropout {
            Some(dropout) => dropout.sample(&self.cache, &self.config, example, epoch),
            None => self.cache.example(example),
        };
        items.iter().map(read).collect()
    }

    /// BPE dropout, if the config asks for it.
    fn dropout(&self) -> Result<Option<BpeDropout>, DataError> {
        let probability = self.config.dropout;
        (probability > 0.0)
            .then(|| BpeDropout::new(self.cache.tokenizers(), probability))
            .transpose()
    }

    /// Refuses BPE dropout for a reason.
    fn refuse_dropout(&self, problem: &str) -> Result<(), DataError> {
        if self.config.dropout > 0.0 {
            Err(DataError::Dropout {
                problem: problem.to_owned(),
            })
        } else {
            Ok(())
        }
    }

    fn origin(&self, example: u32) -> String {
        match self.cache.origin(example) {
            Ok((file, line)) => format!("`{file}` line {line}"),
            Err(_) => format!("example {example}"),
        }
    }
}

/// Rows, and the longest input and target of items that take up this many padded positions; and
/// their real positions.
fn size_of_rows(
    items: &[u32],
    padded: impl Fn(u32) -> (usize, usize),
    real: impl Fn(u32) -> (usize, usize),
) -> ([usize; 3], usize) {
    let longest = items
        .iter()
        .map(|&item| padded(item))
        .fold((0, 0), |max, next| (max.0.max(next.0), max.1.max(next.1)));
    let real = items
        .iter()
        .map(|&item| real(item))
        .map(|(src, tgt)| src + tgt)
        .sum();
    ([items.len(), longest.0, longest.1], real)
}
