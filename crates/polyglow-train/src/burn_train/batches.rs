//! Data loaders of Burn's, and what they yield: the batches of our sources, held-out data as a
//! whole, and a batcher for pairs that come from a dataset of Burn's.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use polyglow_data::batch::PairBatch;
use polyglow_data::example::Example;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::random::mix;
use polyglow_data::sources::BatchSource;
use polyglow_data::special::SpecialIds;
use polyglow_predict::error::TrainError;

/// The input of a training step: a batch in host memory, which the step uploads.
#[derive(Clone, Debug)]
pub struct Batch<B> {
    /// The batch, as the source of the task makes it.
    pub content: B,
    /// The key that decides the dropout of the step; `None` draws it from a count of the thread, so
    /// that a second training has other masks.
    pub dropout_key: Option<u64>,
}

/// The input of a validation step.
#[derive(Clone, Debug)]
pub enum ValidationInput<B> {
    /// A batch, whose loss is computed.
    Batch(Batch<B>),
    /// All held-out data of the task, which are scored as in a validation of our loop: by
    /// [`Task::validate`](crate::Task::validate).
    All,
}

/// The batches of a source, in the order in which our loop trains on them, as a data loader of
/// Burn's.
///
/// Each call of `iter` begins the next epoch, whose batches a background thread makes; the number
/// of items is that of batches. Burn accumulates the gradients of as many batches as
/// `grads_accumulation` says, and a window ends with the epoch, as in our loop.
pub struct Batches<S: BatchSource> {
    source: Arc<S>,
    seed: u64,
    next_epoch: AtomicU64,
    /// The positions of the epoch that this loader has, of all its shares.
    positions: Range<usize>,
}

impl<S: BatchSource<Error: Into<TrainError>>> Batches<S> {
    /// Makes a loader of all batches of a source. `seed`, which may be that of the config, decides
    /// the dropout of each step.
    pub fn new(source: Arc<S>, seed: u64) -> Self {
        Self {
            source,
            seed,
            next_epoch: AtomicU64::new(0),
            positions: 0..usize::MAX,
        }
    }

    /// Begins with the epoch number `epoch`, counted from 0: a training that
    /// `SupervisedTraining::checkpoint(n)` resumes has made `n` epochs.
    #[must_use]
    pub fn from_epoch(self, epoch: u64) -> Self {
        self.next_epoch.store(epoch, Ordering::Relaxed);
        self
    }

    /// Returns a loader of some of the positions, at the same epoch.
    fn with_positions(&self, positions: Range<usize>) -> Self {
        Self {
            source: Arc::clone(&self.source),
            seed: self.seed,
            next_epoch: AtomicU64::new(self.next_epoch.load(Ordering::Relaxed)),
            positions,
        }
    }
}

impl<S: BatchSource<Error: Into<TrainError>>> DataLoader<Batch<S::Batch>> for Batches<S> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch<S::Batch>> + 'a> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::Relaxed);
        Box::new(EpochBatches::start(self, epoch))
    }

    /// Returns the number of batches of the next epoch; 0 where it cannot be planned, for a reason
    /// that the first item then gives.
    fn num_items(&self) -> usize {
        let epoch = self.next_epoch.load(Ordering::Relaxed);
        let len = self.source.plan(epoch).map_or(0, |plan| plan.len());
        len.min(self.positions.end)
            .saturating_sub(self.positions.start)
    }

    /// Returns the same loader: batches stay in host memory, and a step uploads its batch to the
    /// device of its model.
    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<Batch<S::Batch>>> {
        Arc::new(self.with_positions(self.positions.clone()))
    }

    /// Returns a loader of the batches from `start` to `end` of every epoch. The last slice also has
    /// the batches by which a later epoch is longer.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch<S::Batch>>> {
        let first = self.positions.start;
        let end = if end < self.num_items() {
            first + end
        } else {
            self.positions.end
        };
        Arc::new(self.with_positions(first + start..end))
    }
}

/// The batches of one epoch.
struct EpochBatches<S: BatchSource> {
    /// `None` once all are made, or after an error.
    stream: Option<BatchStream<S>>,
    /// The error of the plan, which is the first item.
    failure: Option<DatasetError>,
    seed: u64,
    epoch: u64,
    positions: Range<usize>,
    processed: usize,
    total: usize,
}

impl<S: BatchSource<Error: Into<TrainError>>> EpochBatches<S> {
    fn start(batches: &Batches<S>, epoch: u64) -> Self {
        let positions = batches.positions.clone();
        let start = Position {
            epoch,
            position: positions.start,
        };
        let stream = if batches.source.changes().is_empty() {
            BatchStream::start(Arc::clone(&batches.source), start).map_err(Into::into)
        } else {
            let problem = "corpora that come and go after some steps need polyglow's own loop";
            Err(TrainError::new(problem))
        };
        let (stream, failure) = match stream {
            Ok(stream) => (Some(stream), None),
            Err(error) => (None, Some(DatasetError::new(error))),
        };
        Self {
            stream,
            failure,
            seed: batches.seed,
            epoch,
            positions,
            processed: 0,
            total: 0,
        }
    }
}

impl<S: BatchSource<Error: Into<TrainError>>> Iterator for EpochBatches<S> {
    type Item = Result<Batch<S::Batch>, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        let placed = match self.stream.as_mut()?.next()? {
            Ok(placed) => placed,
            Err(error) => {
                self.stream = None;
                return Some(Err(DatasetError::new(error.into())));
            }
        };
        let end = self.positions.end.min(placed.epoch_len);
        // A slice that this epoch does not reach begins with the next one.
        if placed.epoch != self.epoch || placed.position >= end {
            self.stream = None;
            return None;
        }
        self.processed = placed.position + 1 - self.positions.start;
        self.total = end - self.positions.start;
        if self.processed == self.total {
            self.stream = None;
        }
        let key = mix(&[self.seed, placed.epoch, placed.position as u64]);
        Some(Ok(Batch {
            content: placed.batch,
            dropout_key: Some(key),
        }))
    }
}

impl<S: BatchSource<Error: Into<TrainError>>> DataLoaderIterator<Batch<S::Batch>>
    for EpochBatches<S>
{
    fn progress(&self) -> Progress {
        Progress::new(self.processed, self.total, Some("batches".to_owned()))
    }
}

/// A validation loader for `SupervisedTraining` that yields one item, [`ValidationInput::All`]:
/// each validation scores all held-out data of the task, searched translations among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeSet;

impl<B: 'static> DataLoader<ValidationInput<B>> for WholeSet {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<ValidationInput<B>> + 'a> {
        Box::new(Once(Some(ValidationInput::All)))
    }

    fn num_items(&self) -> usize {
        1
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<ValidationInput<B>>> {
        Arc::new(Self)
    }

    /// Returns the whole set, which has no parts.
    fn slice(&self, _start: usize, _end: usize) -> Arc<dyn DataLoader<ValidationInput<B>>> {
        Arc::new(Self)
    }
}

/// The only item of a [`WholeSet`]; `None` once it is taken.
struct Once<B>(Option<ValidationInput<B>>);

impl<B> Iterator for Once<B> {
    type Item = Result<ValidationInput<B>, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl<B> DataLoaderIterator<ValidationInput<B>> for Once<B> {
    fn progress(&self) -> Progress {
        let processed = usize::from(self.0.is_none());
        Progress::new(processed, 1, Some("sets".to_owned()))
    }
}

/// Makes batches of pairs for a data loader that Burn's `DataLoaderBuilder` makes, of a dataset of
/// your own whose items are [`Example`]s.
#[derive(Clone, Copy, Debug)]
pub struct PairBatcher {
    /// The special tokens of the source.
    pub src: SpecialIds,
    /// The special tokens of the target.
    pub tgt: SpecialIds,
    /// Padded lengths are rounded up to multiples of this.
    pub pad_multiple: usize,
}

impl Batcher<Example, Batch<PairBatch>> for PairBatcher {
    fn batch(&self, examples: Vec<Example>, _device: &Device) -> Batch<PairBatch> {
        Batch {
            content: PairBatch::new(&examples, self.src, self.tgt, self.pad_multiple),
            dropout_key: None,
        }
    }
}

impl Batcher<Example, ValidationInput<PairBatch>> for PairBatcher {
    fn batch(&self, examples: Vec<Example>, device: &Device) -> ValidationInput<PairBatch> {
        ValidationInput::Batch(self.batch(examples, device))
    }
}
