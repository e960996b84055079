//! Prepares batches in a background thread, starting at any position of any epoch.

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

/// Number of batches to prepare ahead.
const AHEAD: usize = 8;

/// A position in the endless stream of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Epoch, counted from 0.
    pub epoch: u64,
    /// Batch within the epoch, counted from 0.
    pub position: usize,
}

/// An endless stream of training batches, epoch after epoch.
///
/// The batches are a pure function of the cache, the configuration and the position: a stream that starts in the middle
/// continues exactly as one that started at the beginning. Dropping the stream ends its thread.
pub struct BatchStream {
    batches: Option<Receiver<Result<Batch, DataError>>>,
    worker: Option<JoinHandle<()>>,
}

impl BatchStream {
    /// Starts preparing batches from `start` on. A position after the end of an epoch means the start of the next one.
    ///
    /// # Errors
    /// The errors of [`Epoch::new`] and [`BpeDropout::new`]; [`DataError::Dropout`] for BPE dropout of windows or
    /// skip-grams; [`DataError::Io`] if the thread cannot be started.
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
        // The first epoch is planned here, so that a wrong configuration fails at once.
        let first = maker.source.plan(start.epoch)?;
        let (sender, batches) = sync_channel(AHEAD);
        let run = move || {
            // Sending fails when the stream is dropped, which is the signal to stop.
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
        // The receiver is dropped first: a worker that is blocked on sending could never be joined.
        self.batches = None;
        if let Some(worker) = self.worker.take() {
            // If the worker panicked, the panic hook has reported it.
            let _ = worker.join();
        }
    }
}

/// Everything that the plan of an epoch depends on.
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

    /// Plans an epoch in another thread while the previous one is used, because sorting a large corpus takes seconds.
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
