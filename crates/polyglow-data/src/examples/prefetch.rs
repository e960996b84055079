//! Prepares batches in a background thread, starting at any position of any epoch.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batching::EpochPlan;
use crate::error::DataError;
use crate::sources::BatchSource;

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

/// A batch with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<B> {
    /// The batch.
    pub batch: B,
    /// The example in which each of its items begins.
    pub examples: Vec<u32>,
    /// Epoch from which the batch is, counted from 0.
    pub epoch: u64,
    /// Place of the batch in its epoch, counted from 0.
    pub position: usize,
    /// Batches in that epoch.
    pub epoch_len: usize,
}

impl<B> Placed<B> {
    /// Whether it is the last batch of its epoch.
    pub fn ends_epoch(&self) -> bool {
        self.position + 1 == self.epoch_len
    }
}

/// An endless stream of training batches, epoch after epoch.
///
/// What it yields is a pure function of the source and the place: a stream that starts in the middle continues like one
/// that came there from the beginning. Dropping it ends the background thread.
pub struct BatchStream<S: BatchSource> {
    batches: Option<Receiver<Item<S>>>,
    worker: Option<JoinHandle<()>>,
}

impl<S: BatchSource> BatchStream<S> {
    /// Starts preparing batches from `start` on. A position behind the end of its epoch means the next epoch's start.
    ///
    /// # Errors
    /// What [`BatchSource::plan`] says; [`DataError::NoBatch`] for an epoch without batches; [`DataError::Io`] if no thread
    /// can be started.
    pub fn start(source: Arc<S>, start: Position) -> Result<Self, S::Error> {
        // The first plan is made here, so that a configuration that cannot work fails at once.
        let first = plan_epoch(&*source, start.epoch)?;
        let (sender, batches) = sync_channel(AHEAD);
        let run = move || {
            // Sending fails when the stream is dropped, which is the signal to end.
            let _ = make_all(&source, first, start, |batch| sender.send(batch).is_ok());
        };
        let worker = thread::Builder::new().name("batches".to_owned()).spawn(run);
        let worker = worker.map_err(no_thread)?;
        Ok(Self { batches: Some(batches), worker: Some(worker) })
    }
}

impl<S: BatchSource> Iterator for BatchStream<S> {
    type Item = Item<S>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.as_ref()?.recv().ok()
    }
}

impl<S: BatchSource> Drop for BatchStream<S> {
    fn drop(&mut self) {
        // The receiver is dropped first: a worker that is blocked on sending could never be joined.
        self.batches = None;
        if let Some(worker) = self.worker.take() {
            // If the worker panicked, the panic hook has reported it.
            let _ = worker.join();
        }
    }
}

/// What a stream of batches yields.
type Item<S> = Result<Placed<<S as BatchSource>::Batch>, <S as BatchSource>::Error>;

/// The stream was dropped.
struct Ended;

fn make_all<S: BatchSource>(
    source: &Arc<S>,
    first: EpochPlan,
    start: Position,
    mut send: impl FnMut(Item<S>) -> bool,
) -> Result<(), Ended> {
    let mut send = |item| if send(item) { Ok(()) } else { Err(Ended) };
    let (mut plan, mut place) = (first, start);
    loop {
        // An epoch is planned while the one before it is used, because sorting a large corpus takes seconds.
        let (planner, epoch) = (Arc::clone(source), place.epoch);
        let next = thread::Builder::new().name("plan".to_owned()).spawn(move || plan_epoch(&*planner, epoch + 1));
        for position in place.position..plan.len() {
            let items = plan.batch(position);
            let batch = source.batch(epoch, items).map(|batch| {
                let examples = source.examples(epoch, items);
                Placed { batch, examples, epoch, position, epoch_len: plan.len() }
            });
            let failed = batch.is_err();
            send(batch)?;
            if failed {
                return Err(Ended);
            }
        }
        plan = match next.map(JoinHandle::join) {
            Ok(Ok(Ok(plan))) => plan,
            Ok(Ok(Err(error))) => return send(Err(error)),
            Err(error) => return send(Err(no_thread(error).into())),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
        };
        place = Position { epoch: place.epoch + 1, position: 0 };
    }
}

/// The plan of an epoch, which has at least one batch: without any, nothing would ever be sent.
fn plan_epoch<S: BatchSource>(source: &S, epoch: u64) -> Result<EpochPlan, S::Error> {
    let plan = source.plan(epoch)?;
    if plan.is_empty() { Err(DataError::NoBatch.into()) } else { Ok(plan) }
}

fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io { path: "background thread".into(), source }
}
