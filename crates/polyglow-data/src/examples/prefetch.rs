//! A background thread that keeps some batches ready, from any position of any epoch on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Batch;
use crate::batching::BatchingConfig;
use crate::dropout::BpeDropout;
use crate::epoch::Epoch;
use crate::error::DataError;
use crate::framing::Framing;
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
    /// What [`Epoch::new`] and [`BpeDropout::new`] say; [`DataError::Dropout`] for BPE dropout of windows or skip-grams; and
    /// [`DataError::Io`] if no thread can be started.
    pub fn start(cache: Arc<IdCache>, config: BatchingConfig, start: Position) -> Result<Self, DataError> {
        let dropout =
            if config.dropout > 0.0 { Some(BpeDropout::new(cache.tokenizers(), config.dropout)?) } else { None };
        let refuse = |problem: &str| Err(DataError::Dropout { problem: problem.to_owned() });
        match config.framing {
            Framing::Windows { .. } if dropout.is_some() => {
                return refuse("windows are cut by the number of tokens, which dropout changes");
            }
            Framing::SkipGrams(_) if dropout.is_some() => {
                return refuse("skip-grams are drawn by the frequencies of tokens, which dropout changes");
            }
            _ => {}
        }
        let maker = Maker { source: Planner { cache, config }, dropout };
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

/// What the plan of an epoch follows from.
#[derive(Clone)]
struct Planner {
    cache: Arc<IdCache>,
    config: BatchingConfig,
}

struct Maker {
    source: Planner,
    dropout: Option<BpeDropout>,
}

/// The stream was dropped.
struct Ended;

impl Planner {
    fn plan(&self, epoch: u64) -> Result<Epoch, DataError> {
        Epoch::new(&self.cache, &self.config, epoch)
    }

    /// Plans an epoch while the one before it is used, because sorting a large corpus takes seconds.
    fn plan_aside(&self, epoch: u64) -> Result<JoinHandle<Result<Epoch, DataError>>, DataError> {
        let planner = self.clone();
        thread::Builder::new().name("plan".to_owned()).spawn(move || planner.plan(epoch)).map_err(no_thread)
    }
}

impl Maker {
    fn make_all(
        &self,
        first: Epoch,
        start: Position,
        mut send: impl FnMut(Result<Batch, DataError>) -> bool,
    ) -> Result<(), Ended> {
        let mut send = |item| if send(item) { Ok(()) } else { Err(Ended) };
        let (mut epoch, mut place) = (first, start);
        loop {
            let next = self.source.plan_aside(place.epoch + 1);
            for position in place.position..epoch.len() {
                let batch = epoch.batch(&self.source.cache, position, self.dropout.as_ref());
                let failed = batch.is_err();
                send(batch)?;
                if failed {
                    return Err(Ended);
                }
            }
            epoch = match next.map(JoinHandle::join) {
                Ok(Ok(Ok(epoch))) => epoch,
                Ok(Ok(Err(error))) | Err(error) => return send(Err(error)),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
            };
            place = Position { epoch: place.epoch + 1, position: 0 };
        }
    }
}

fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io { path: "background thread".into(), source }
}
