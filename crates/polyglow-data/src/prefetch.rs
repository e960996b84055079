//! A background thread that keeps some batches ready, from any position of any epoch on.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Batch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::window::Windows;

/// Batches that are ready before they are asked for.
const AHEAD: usize = 8;

/// A place in the endless stream of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Epoch, counted from 0.
    pub epoch: u64,
    /// Batch within the epoch, counted from 0.
    pub position: usize,
}

/// An endless stream of training batches, epoch after epoch.
///
/// What it yields is a pure function of the cache, the configuration and the place: a stream that starts in the middle
/// continues like one that came there from the beginning. Dropping it ends the background thread.
pub struct BatchStream {
    batches: Option<Receiver<Result<Batch, DataError>>>,
    worker: Option<JoinHandle<()>>,
}

impl BatchStream {
    /// Starts preparing batches from `start` on. A position behind the end of its epoch means the next epoch's start.
    ///
    /// # Errors
    /// What [`plan`] and [`BpeDropout::new`] say; and [`DataError::Io`] if no thread can be started.
    pub fn start(cache: Arc<IdCache>, config: BatchingConfig, start: Position) -> Result<Self, DataError> {
        let dropout =
            if config.dropout > 0.0 { Some(BpeDropout::new(cache.tokenizers(), config.dropout)?) } else { None };
        Self::spawn(Maker { source: Planner { cache, config, context_len: None }, dropout }, start)
    }

    /// Starts preparing windows of a text of one side instead of its examples, `context_len` positions each; where they are
    /// cut differs between epochs. [`Windows`] says what they are.
    ///
    /// # Errors
    /// As [`Self::start`] and [`Windows::new`]; [`DataError::Dropout`] if the configuration asks for BPE dropout.
    pub fn start_windows(
        cache: Arc<IdCache>,
        config: BatchingConfig,
        context_len: NonZeroUsize,
        start: Position,
    ) -> Result<Self, DataError> {
        if config.dropout > 0.0 {
            return Err(DataError::Dropout { problem: "windows of a text are cut before it is segmented".to_owned() });
        }
        Self::spawn(Maker { source: Planner { cache, config, context_len: Some(context_len) }, dropout: None }, start)
    }

    fn spawn(maker: Maker, start: Position) -> Result<Self, DataError> {
        // The first plan is made here, so that a configuration that cannot work fails at once.
        let first = maker.source.plan(start.epoch)?;
        let (sender, batches) = sync_channel(AHEAD);
        let run = move || {
            // Sending fails when the stream is dropped, which is the signal to end.
            let _ = maker.make_all(first, start, |batch| sender.send(batch).is_ok());
        };
        let worker = thread::Builder::new().name("batches".to_owned()).spawn(run).map_err(no_thread)?;
        Ok(Self { batches: Some(batches), worker: Some(worker) })
    }
}

impl Iterator for BatchStream {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.as_ref()?.recv().ok()
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        // The receiver goes first: a worker that waits to send would never be joined.
        self.batches = None;
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has printed why; there is nothing to add while dropping.
            let _ = worker.join();
        }
    }
}

/// The plan of one epoch of `cache`.
///
/// # Errors
/// [`DataError::LargerThanBatch`] if one example alone exceeds `max_tokens`.
pub fn plan(cache: &IdCache, config: &BatchingConfig, epoch: u64) -> Result<EpochPlan, DataError> {
    EpochPlan::new(|example| cache.lengths(example), &cache.parts(), config, epoch).map_err(|mut error| {
        if let DataError::LargerThanBatch { example, place, .. } = &mut error
            && let Ok((file, line)) = cache.origin(*example)
        {
            *place = format!("`{file}` line {line}");
        }
        error
    })
}

/// What the plan of an epoch follows from.
#[derive(Clone)]
struct Planner {
    cache: Arc<IdCache>,
    config: BatchingConfig,
    /// Positions of a window; none where batches are made of whole examples.
    context_len: Option<NonZeroUsize>,
}

/// The batches of an epoch, as numbers of examples or windows.
struct Planned {
    plan: EpochPlan,
    windows: Option<Windows>,
}

struct Maker {
    source: Planner,
    dropout: Option<BpeDropout>,
}

/// The stream was dropped.
struct Ended;

impl Planner {
    fn plan(&self, epoch: u64) -> Result<Planned, DataError> {
        let Self { cache, config, context_len } = self;
        let Some(context_len) = *context_len else {
            return Ok(Planned { plan: plan(cache, config, epoch)?, windows: None });
        };
        let windows = Windows::of_epoch(cache, context_len, config.seed, epoch)?;
        Ok(Planned { plan: windows.plan(cache, config, epoch)?, windows: Some(windows) })
    }

    /// Plans an epoch while the one before it is used, because sorting a large corpus takes seconds.
    fn plan_aside(&self, epoch: u64) -> Result<JoinHandle<Result<Planned, DataError>>, DataError> {
        let planner = self.clone();
        thread::Builder::new().name("plan".to_owned()).spawn(move || planner.plan(epoch)).map_err(no_thread)
    }
}

impl Maker {
    fn make_all(
        &self,
        first: Planned,
        start: Position,
        mut send: impl FnMut(Result<Batch, DataError>) -> bool,
    ) -> Result<(), Ended> {
        let mut send = |item| if send(item) { Ok(()) } else { Err(Ended) };
        let (mut planned, mut place) = (first, start);
        loop {
            let next = self.source.plan_aside(place.epoch + 1);
            for position in place.position..planned.plan.len() {
                let batch = self.make(&planned, Position { position, ..place });
                let failed = batch.is_err();
                send(batch)?;
                if failed {
                    return Err(Ended);
                }
            }
            planned = match next.map(JoinHandle::join) {
                Ok(Ok(Ok(planned))) => planned,
                Ok(Ok(Err(error))) | Err(error) => return send(Err(error)),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
            };
            place = Position { epoch: place.epoch + 1, position: 0 };
        }
    }

    fn make(&self, Planned { plan, windows }: &Planned, place: Position) -> Result<Batch, DataError> {
        let indices = plan.batch(place.position);
        let batch = match windows {
            None => self.batch_of_examples(indices, place.epoch)?,
            Some(windows) => self.batch_of_windows(windows, indices)?,
        };
        Ok(Batch { epoch: place.epoch, position: place.position, epoch_len: plan.len(), ..batch })
    }

    fn batch_of_examples(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        let Planner { cache, config, .. } = &self.source;
        let examples = indices.iter().map(|&example| match &self.dropout {
            Some(dropout) => dropout.sample(cache, config, example, epoch),
            None => cache.example(example),
        });
        let examples: Vec<_> = examples.collect::<Result<_, _>>()?;
        let tokenizers = cache.tokenizers();
        let (src, tgt) = (tokenizers.src.special(), tokenizers.tgt.special());
        let mut batch = Batch::new(&examples, src, tgt, config.pad_multiple);
        if config.links && self.dropout.is_none() && cache.is_aligned() {
            let links = indices.iter().map(|&example| cache.links(example));
            batch = batch.with_links(&links.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Batch { example_indices: indices.to_vec(), ..batch })
    }

    fn batch_of_windows(&self, windows: &Windows, indices: &[u32]) -> Result<Batch, DataError> {
        let Planner { cache, config, .. } = &self.source;
        let read: Vec<_> = indices.iter().map(|&window| windows.read(cache, window)).collect::<Result<_, _>>()?;
        let (example_indices, rows): (_, Vec<_>) = read.into_iter().unzip();
        let batch = Batch::of_windows(&rows, cache.tokenizers().tgt.special(), config.pad_multiple);
        Ok(Batch { example_indices, ..batch })
    }
}

fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io { path: "background thread".into(), source }
}
