//! A background thread that keeps some batches ready, from any position of any epoch on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Batch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::id_cache::IdCache;

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
        // The first plan is made here, so that a configuration that cannot work fails at once.
        let first = plan(&cache, &config, start.epoch)?;
        let maker = Maker { cache, config, dropout };
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

struct Maker {
    cache: Arc<IdCache>,
    config: BatchingConfig,
    dropout: Option<BpeDropout>,
}

/// The stream was dropped.
struct Ended;

impl Maker {
    fn make_all(
        &self,
        first: EpochPlan,
        start: Position,
        mut send: impl FnMut(Result<Batch, DataError>) -> bool,
    ) -> Result<(), Ended> {
        let mut send = |item| if send(item) { Ok(()) } else { Err(Ended) };
        let (mut plan, mut place) = (first, start);
        loop {
            let next = self.plan_aside(place.epoch + 1);
            for position in place.position..plan.len() {
                let batch = self.make(&plan, Position { position, ..place });
                let failed = batch.is_err();
                send(batch)?;
                if failed {
                    return Err(Ended);
                }
            }
            plan = match next.map(JoinHandle::join) {
                Ok(Ok(Ok(plan))) => plan,
                Ok(Ok(Err(error))) | Err(error) => return send(Err(error)),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
            };
            place = Position { epoch: place.epoch + 1, position: 0 };
        }
    }

    /// Plans an epoch while the one before it is used, because sorting a large corpus takes seconds.
    fn plan_aside(&self, epoch: u64) -> Result<JoinHandle<Result<EpochPlan, DataError>>, DataError> {
        let (cache, config) = (Arc::clone(&self.cache), self.config);
        thread::Builder::new().name("plan".to_owned()).spawn(move || plan(&cache, &config, epoch)).map_err(no_thread)
    }

    fn make(&self, plan: &EpochPlan, place: Position) -> Result<Batch, DataError> {
        let indices = plan.batch(place.position);
        let examples = indices.iter().map(|&example| match &self.dropout {
            Some(dropout) => dropout.sample(&self.cache, &self.config, example, place.epoch),
            None => self.cache.example(example),
        });
        let examples: Vec<_> = examples.collect::<Result<_, _>>()?;
        let tokenizers = self.cache.tokenizers();
        let (src, tgt) = (tokenizers.src.special(), tokenizers.tgt.special());
        let mut batch = Batch::new(&examples, src, tgt, self.config.pad_multiple);
        if self.config.links && self.dropout.is_none() && self.cache.is_aligned() {
            let links = indices.iter().map(|&example| self.cache.links(example));
            batch = batch.with_links(&links.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Batch {
            example_indices: indices.to_vec(),
            epoch: place.epoch,
            position: place.position,
            epoch_len: plan.len(),
            ..batch
        })
    }
}

fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io { path: "background thread".into(), source }
}
