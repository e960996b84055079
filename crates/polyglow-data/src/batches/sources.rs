//! The sources of batches: one file per kind of batch, from examples to rectangles of ids.
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
mod streamed;
mod tags;
mod windows;

use std::ops::Range;
use std::sync::Arc;

use crate::augmentation::Augmentation;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::noise::SourceNoise;
use crate::segmenter::Segmenter;
use crate::tokenizer::WORD_START;

pub use captions::{CaptionImages, CaptionSource};
pub use images::ImageSource;
pub use labels::LabelSource;
pub use lines::LineSource;
pub use masked::MaskedSource;
pub use pairs::PairSource;
pub use sharded::{Sharded, num_shards};
pub use skip_grams::SkipGramSource;
pub use streamed::StreamedSource;
pub use tags::TagSource;
pub use windows::WindowSource;

/// A source of training batches, from which [`BatchStream`](crate::prefetch::BatchStream) makes a
/// stream.
pub trait BatchSource: Send + Sync + 'static {
    /// A micro-batch in host memory.
    type Batch: Send + Sync + 'static;
    /// The error of a source that cannot plan an epoch or read its data.
    type Error: From<DataError> + Send + 'static;

    /// Plans which items form which batch of the epoch number `epoch`, counted from 0. The source
    /// decides what an item is, such as an example or a window.
    ///
    /// # Errors
    /// The data cannot be read, or one item alone is larger than a batch.
    fn plan(&self, epoch: u64) -> Result<EpochPlan, Self::Error>;

    /// Plans an epoch as [`Self::plan`] does, of what is trained on in this step, counted from 0.
    ///
    /// # Errors
    /// As [`Self::plan`].
    fn plan_in(&self, epoch: u64, _step: u64) -> Result<EpochPlan, Self::Error> {
        self.plan(epoch)
    }

    /// Returns the steps, ascending, before which it changes what is trained on: there an epoch
    /// ends, and another begins.
    fn changes(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Makes the batch of some items in an epoch.
    ///
    /// # Errors
    /// The data cannot be read.
    fn batch(&self, epoch: u64, items: &[u32]) -> Result<Self::Batch, Self::Error>;

    /// Makes the batch of some items in `count` shards, or fewer, for parallel work: each is a
    /// batch of some of the items.
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

    /// Returns the size of the batch of some items without making it: an upper bound of its rows,
    /// input positions and target positions, padding included; and the number of positions that are
    /// no padding.
    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize);

    /// Returns the example in which each item begins, whose [`Self::origin`] a message may name.
    fn examples(&self, _epoch: u64, items: &[u32]) -> Vec<u32> {
        items.to_vec()
    }

    /// Names the origin of an example for messages: a file and a line.
    fn origin(&self, example: u32) -> String {
        format!("example {example}")
    }
}

/// The fields of all sources that read an id cache.
#[derive(Clone)]
pub(crate) struct Cached {
    cache: Arc<IdCache>,
    config: BatchingConfig,
    segmenter: Option<Arc<Segmenter>>,
    augmentation: Option<Augmentation>,
}

impl Cached {
    /// Makes a source of the examples of `cache`, with words segmented as the config asks for.
    fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let segmenter = Segmenter::new(cache.tokenizers(), config.segmentation)?;
        Ok(Self::with_segmenter(cache, config, segmenter))
    }

    /// Makes a source of the examples of `cache`, whose words `segmenter` segments anew, if there is one.
    fn with_segmenter(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        segmenter: Option<Segmenter>,
    ) -> Self {
        Self {
            cache,
            config,
            segmenter: segmenter.map(Arc::new),
            augmentation: None,
        }
    }

    /// Makes a source of the examples of `cache`, whose tokens stay as they are because of
    /// `problem`.
    fn with_fixed_tokens(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        problem: &str,
    ) -> Result<Self, DataError> {
        if !config.segmentation.is_fixed() {
            return Err(DataError::Segmentation {
                problem: problem.to_owned(),
            });
        }
        Self::new(cache, config)
    }

    /// Plans an epoch of whole examples; `positions` returns the padded input and target positions
    /// of one.
    fn plan(
        &self,
        epoch: u64,
        positions: impl Fn(u32) -> (usize, usize) + Sync,
    ) -> Result<EpochPlan, DataError> {
        self.plan_parts(&self.cache.parts(), epoch, positions)
    }

    /// Plans an epoch of the examples of these corpora, each with its weight.
    fn plan_parts(
        &self,
        parts: &[(Range<u32>, f64)],
        epoch: u64,
        positions: impl Fn(u32) -> (usize, usize) + Sync,
    ) -> Result<EpochPlan, DataError> {
        EpochPlan::new(positions, parts, &self.config, epoch).map_err(|mut error| {
            if let DataError::LargerThanBatch { example, name, .. } = &mut error {
                *name = self.origin(*example);
            }
            error
        })
    }

    /// Returns the most tokens that an example is planned to have on both sides, before new
    /// segmentations: those of the cache, and where there is noise a few more in the source.
    fn lengths(&self, example: u32) -> (usize, usize) {
        let (src, tgt) = self.cache.lengths(example);
        if self.cache.noise(example).is_none() {
            return (src, tgt);
        }
        // No longer than the longest source, for which the model has positions.
        let limit = (src + src / 2 + 2).min(self.cache.report().src.longest);
        (limit.max(src), tgt)
    }

    /// Reads the ids of an example, of its source with noise if there is noise, and segmented again
    /// if that is asked for.
    fn example(&self, epoch: u64, item: u32) -> Result<Example, DataError> {
        let noise = self.cache.noise(item);
        if noise.is_none() && self.segmenter.is_none() {
            return self.cache.example(item);
        }
        let mut marked = self.cache.marked_example(item)?;
        if let Some(noise) = noise {
            let source_noise = SourceNoise {
                noise,
                tokenizer: &self.cache.tokenizers().src,
                num_tags: self.cache.num_tags(item)[0],
                limit: self.lengths(item).0,
                row: [self.config.seed, epoch, u64::from(item)],
            };
            marked.src = source_noise.apply(marked.src)?;
        }
        if let Some(segmenter) = &self.segmenter {
            return Ok(segmenter.segment(&marked, &self.config, item, epoch));
        }
        for id in marked.src.iter_mut().chain(&mut marked.tgt) {
            *id &= !WORD_START;
        }
        Ok(marked)
    }

    /// Reads the ids of examples, with new segmentations of their words if they are asked for, with
    /// noise, and with the changes of an augmentation.
    fn examples(&self, epoch: u64, items: &[u32]) -> Result<Vec<Example>, DataError> {
        let mut examples = Vec::with_capacity(items.len());
        for &item in items {
            let mut example = self.example(epoch, item)?;
            if let Some(augmentation) = &self.augmentation {
                augmentation.apply(&mut example, item, epoch, &self.config, &self.cache);
            }
            examples.push(example);
        }
        Ok(examples)
    }

    /// Returns whether examples without noise have the tokens that the id cache has of them.
    fn has_tokens_of_cache(&self) -> bool {
        self.segmenter.is_none() && self.augmentation.is_none()
    }

    /// Names the file and line of an example, or its index if the cache cannot be read.
    fn origin(&self, example: u32) -> String {
        match self.cache.origin(example) {
            Ok((file, line)) => format!("`{file}` line {line}"),
            Err(_) => format!("example {example}"),
        }
    }
}

/// Returns [`BatchSource::size`] of a batch with a row for each item. `padded` returns the padded
/// input and target positions of an item, and `real` those that are no padding.
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
