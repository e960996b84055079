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

/// Which batches of a stream are made, where several processes read the same one: of each window of
/// `window` batches the process number `rank` of `size` makes its part, which is a run of
/// neighbors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of the process, from 0.
    pub rank: usize,
    /// Processes.
    pub size: usize,
    /// Batches of a step, at least as many as processes.
    pub window: usize,
}

impl Share {
    /// All batches.
    pub const ALL: Self = Self {
        rank: 0,
        size: 1,
        window: 1,
    };

    /// Whether the batch at a position of its epoch is a part of it; windows begin with the epoch.
    pub fn has(self, position: usize) -> bool {
        let Self { rank, size, window } = self;
        let place = position % window;
        (rank * window / size..(rank + 1) * window / size).contains(&place)
    }
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

/// What the background thread makes: a place, and its batch if that is in the share.
pub type Item<S> = Result<Placed<Option<<S as BatchSource>::Batch>>, <S as BatchSource>::Error>;

/// An endless stream of training batches, epoch after epoch.
///
/// What it yields is a pure function of the source and the place: a stream that starts in the
/// middle continues like one that came there from the beginning. Dropping it ends the background
/// thread.
pub struct BatchStream<S: BatchSource> {
    batches: Option<Receiver<Item<S>>>,
    worker: Option<JoinHandle<()>>,
}

impl<S: BatchSource> BatchStream<S> {
    /// Starts preparing batches from `start` on. A position behind the end of its epoch means the
    /// next epoch's start.
    ///
    /// # Errors
    /// What [`BatchSource::plan`] says; [`DataError::NoBatch`] for an epoch without batches;
    /// [`DataError::Io`] if no thread can be started.
    pub fn start(source: Arc<S>, start: Position) -> Result<Self, S::Error> {
        Self::start_share(source, start, Share::ALL)
    }

    /// As [`Self::start`]; only the batches of `share` are made, and of the others the places are
    /// told.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_share(source: Arc<S>, start: Position, share: Share) -> Result<Self, S::Error> {
        // The first plan is made here, so that a configuration that cannot work fails at once.
        let first = plan_epoch(&*source, start.epoch)?;
        let (sender, batches) = sync_channel(AHEAD * share.size);
        let run = move || {
            // Sending fails when the stream is dropped, which is the signal to end.
            let _ = make_all(&source, first, start, share, |batch| {
                sender.send(batch).is_ok()
            });
        };
        let worker = thread::Builder::new().name("batches".to_owned()).spawn(run);
        let worker = worker.map_err(no_thread)?;
        Ok(Self {
            batches: Some(batches),
            worker: Some(worker),
        })
    }

    /// The next place in the stream, with its batch if that is in the share.
    pub fn next_place(&mut self) -> Option<Item<S>> {
        self.batches.as_ref()?.recv().ok()
    }
}

/// The batches of the share.
impl<S: BatchSource> Iterator for BatchStream<S> {
    type Item = Result<Placed<S::Batch>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_place()? {
                Ok(Placed {
                    batch: Some(batch),
                    examples,
                    epoch,
                    position,
                    epoch_len,
                }) => {
                    return Some(Ok(Placed {
                        batch,
                        examples,
                        epoch,
                        position,
                        epoch_len,
                    }));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
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

/// The stream was dropped.
struct Ended;

fn make_all<S: BatchSource>(
    source: &Arc<S>,
    first: EpochPlan,
    start: Position,
    share: Share,
    mut send: impl FnMut(Item<S>) -> bool,
) -> Result<(), Ended> {
    let mut send = |item| if send(item) { Ok(()) } else { Err(Ended) };
    let (mut plan, mut place) = (first, start);
    loop {
        // An epoch is planned while the one before it is used, because sorting a large corpus takes
        // seconds.
        let (planner, epoch) = (Arc::clone(source), place.epoch);
        let next = thread::Builder::new()
            .name("plan".to_owned())
            .spawn(move || plan_epoch(&*planner, epoch + 1));
        for position in place.position..plan.len() {
            let items = plan.batch(position);
            let batch = share
                .has(position)
                .then(|| source.batch(epoch, items))
                .transpose()
                .map(|batch| {
                    let examples = source.examples(epoch, items);
                    Placed {
                        batch,
                        examples,
                        epoch,
                        position,
                        epoch_len: plan.len(),
                    }
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
        place = Position {
            epoch: place.epoch + 1,
            position: 0,
        };
    }
}

/// The plan of an epoch, which has at least one batch: without any, nothing would ever be sent.
fn plan_epoch<S: BatchSource>(source: &S, epoch: u64) -> Result<EpochPlan, S::Error> {
    let plan = source.plan(epoch)?;
    if plan.is_empty() {
        Err(DataError::NoBatch.into())
    } else {
        Ok(plan)
    }
}

fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io {
        path: "background thread".into(),
        source,
    }
}
