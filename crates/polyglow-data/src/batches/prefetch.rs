//! Prepares batches in a background thread, starting at any position of any epoch.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batching::EpochPlan;
use crate::error::DataError;
use crate::sources::BatchSource;

/// Number of batches to prepare ahead, which hides a batch that takes longer than others.
const AHEAD: usize = 8;

/// A position in the endless stream of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Epoch, counted from 0.
    pub epoch: u64,
    /// Batch within the epoch, counted from 0.
    pub position: usize,
}

/// The share of a stream's batches that this process makes, where several processes read the same
/// stream: of each `window` batches the process number `rank` of `size` makes a run of neighbors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of the process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Number of batches of a step, at least as many as processes.
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
        let in_window = position % window;
        (rank * window / size..(rank + 1) * window / size).contains(&in_window)
    }
}

/// A batch with its position in the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Positioned<B> {
    /// The batch.
    pub batch: B,
    /// The example in which each of its items begins.
    pub examples: Vec<u32>,
    /// Epoch from which the batch is, counted from 0.
    pub epoch: u64,
    /// Position of the batch in its epoch, counted from 0.
    pub position: usize,
    /// Number of batches in that epoch.
    pub epoch_len: usize,
}

impl<B> Positioned<B> {
    /// Whether it is the last batch of its epoch.
    pub fn ends_epoch(&self) -> bool {
        self.position + 1 == self.epoch_len
    }
}

/// A result of the background thread: a position, and its batch if that is in the share.
pub type Item<S> = Result<Positioned<Option<<S as BatchSource>::Batch>>, <S as BatchSource>::Error>;

/// An endless stream of training batches, epoch after epoch.
///
/// Each batch is a pure function of the source and the position: a stream that starts in the middle
/// continues like one that came there from the beginning. Dropping it ends the background thread.
pub struct BatchStream<S: BatchSource> {
    batches: Option<Receiver<Item<S>>>,
    worker: Option<JoinHandle<()>>,
}

impl<S: BatchSource> BatchStream<S> {
    /// Starts preparing batches from `start` on. A position behind the end of its epoch means the
    /// next epoch's start.
    ///
    /// # Errors
    /// As [`BatchSource::plan`]; [`DataError::NoBatch`] for an epoch without batches;
    /// [`DataError::Io`] if no thread can be started.
    pub fn start(source: Arc<S>, start: Position) -> Result<Self, S::Error> {
        Self::start_share(source, start, Share::ALL, 0)
    }

    /// Starts as [`Self::start`], but makes the batches of `share` alone, and plans all epochs for
    /// this step, counted from 0, until whose next [change](BatchSource::changes) the stream is of
    /// use. [`Self::next_position`] returns the positions of the other batches, too.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_share(
        source: Arc<S>,
        start: Position,
        share: Share,
        step: u64,
    ) -> Result<Self, S::Error> {
        // The first plan is made here, so that a configuration that cannot work fails at once.
        let first = plan_epoch(&*source, start.epoch, step)?;
        let (sender, batches) = sync_channel(AHEAD * share.size);
        let worker = thread::Builder::new()
            .name("batches".to_owned())
            .spawn(move || {
                // Sending fails when the stream is dropped, which is the signal to end.
                let plans = Plans {
                    source: &source,
                    first,
                    step,
                };
                let _ = make_all(plans, start, share, |item| {
                    sender.send(item).map_err(|_| Ended)
                });
            })
            .map_err(no_thread)?;
        Ok(Self {
            batches: Some(batches),
            worker: Some(worker),
        })
    }

    /// Returns the next position in the stream, with its batch if that is in the share. Waits until
    /// it is made; `None` after an error.
    pub fn next_position(&mut self) -> Option<Item<S>> {
        self.batches.as_ref()?.recv().ok()
    }
}

/// Yields the batches of the share.
impl<S: BatchSource> Iterator for BatchStream<S> {
    type Item = Result<Positioned<S::Batch>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_position()? {
                Ok(Positioned {
                    batch: Some(batch),
                    examples,
                    epoch,
                    position,
                    epoch_len,
                }) => {
                    return Some(Ok(Positioned {
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

/// The end of the stream: it was dropped, or an error was sent, after which nothing follows.
struct Ended;

/// The plans of epochs, one after the other.
struct Plans<'s, S> {
    source: &'s Arc<S>,
    /// The plan of the first epoch.
    first: EpochPlan,
    /// The step that all epochs are planned for.
    step: u64,
}

/// Makes the batches of all epochs from `start` on.
fn make_all<S: BatchSource>(
    plans: Plans<'_, S>,
    start: Position,
    share: Share,
    mut send: impl FnMut(Item<S>) -> Result<(), Ended>,
) -> Result<(), Ended> {
    let Plans {
        source,
        first: mut plan,
        step,
    } = plans;
    let mut start = start;
    loop {
        // An epoch is planned while the one before it is used, because sorting a large corpus takes
        // seconds.
        let planner = Arc::clone(source);
        let next_epoch = start.epoch + 1;
        let next_plan = thread::Builder::new()
            .name("plan".to_owned())
            .spawn(move || plan_epoch(&*planner, next_epoch, step));
        make_epoch(&**source, &plan, start, share, &mut send)?;
        plan = match next_plan.map(JoinHandle::join) {
            Ok(Ok(Ok(plan))) => plan,
            Ok(Ok(Err(error))) => return send(Err(error)),
            Err(error) => return send(Err(no_thread(error).into())),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
        };
        start = Position {
            epoch: next_epoch,
            position: 0,
        };
    }
}

/// Makes the batches of one epoch from `start` on, up to the first error.
fn make_epoch<S: BatchSource>(
    source: &S,
    plan: &EpochPlan,
    start: Position,
    share: Share,
    send: &mut impl FnMut(Item<S>) -> Result<(), Ended>,
) -> Result<(), Ended> {
    let epoch = start.epoch;
    for position in start.position..plan.len() {
        let items = plan.batch(position);
        let mut batch = None;
        if share.has(position) {
            match source.batch(epoch, items) {
                Ok(made) => batch = Some(made),
                Err(error) => {
                    send(Err(error))?;
                    return Err(Ended);
                }
            }
        }
        send(Ok(Positioned {
            batch,
            examples: source.examples(epoch, items),
            epoch,
            position,
            epoch_len: plan.len(),
        }))?;
    }
    Ok(())
}

/// Plans an epoch, which has at least one batch: without any, nothing would ever be sent.
fn plan_epoch<S: BatchSource>(source: &S, epoch: u64, step: u64) -> Result<EpochPlan, S::Error> {
    let plan = source.plan_in(epoch, step)?;
    if plan.is_empty() {
        Err(DataError::NoBatch.into())
    } else {
        Ok(plan)
    }
}

/// Makes the error that the system starts no thread.
fn no_thread(source: std::io::Error) -> DataError {
    DataError::Io {
        path: "background thread".into(),
        source,
    }
}
