//! The handle of the thread that owns the models.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polyglow_model::search::SearchRequest;
use polyglow_predict::attention::{UnitLink, WordAttention};
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::{Request, Translated};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::worker::{Job, Message, Worker};

/// Slices that a client has not read, at most. The worker skips a request with as many, so that
/// translations do not pile up for a client that reads slowly; with fewer, a client that is busy
/// for a moment would have to wait for the worker afterwards.
const MAX_UNREAD_SLICES: usize = 4;

/// The options of the translations of a request. Requests with equal options share batches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TranslateOptions {
    /// The index of the model.
    pub(crate) model: usize,
    /// The search, the most translations of a line that are returned, and whether they come
    /// with scores.
    pub(crate) search: SearchRequest,
    /// Whether the attention of the words of translations is returned.
    pub(crate) attention: bool,
    /// Whether the units of the best translations are linked with those of the sources.
    pub(crate) links: bool,
}

/// A translation of a line.
#[derive(Clone, Debug)]
pub(crate) struct LinkedTranslation {
    pub(crate) translation: Translated,
    /// The attention of each of its words in the last layer; empty if not requested.
    pub(crate) attention: WordAttention,
    /// The parts of the line that its parts are translated from; empty if not requested.
    pub(crate) links: Vec<UnitLink>,
}

/// The translations of some lines of a request, the best of each line first.
pub(crate) type Slice = Result<Vec<Vec<LinkedTranslation>>, Failure>;

/// A slot in the queue, released when the client and the worker have dropped it.
pub(crate) type Permit = Arc<OwnedSemaphorePermit>;

/// The translations of a request as they are made. Dropping it cancels the rest.
pub(crate) struct Slices {
    translations: mpsc::Receiver<Slice>,
    worker: mpsc::UnboundedSender<Message>,
    _permit: Permit,
}

impl Slices {
    /// Returns the next slice, in the order of the lines; `None` after the last, or if the worker
    /// has ended.
    pub(crate) async fn next(&mut self) -> Option<Slice> {
        let slice = self.translations.recv().await;
        // The worker may sleep because this channel was full. If it has ended, it needs no message.
        let _ = self.worker.send(Message::Wake);
        slice
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        // Close before waking: otherwise the worker could check the channel before it is closed,
        // and keep the job until the next message.
        self.translations.close();
        let _ = self.worker.send(Message::Wake);
    }
}

/// The handle of the thread that owns the models.
#[derive(Clone)]
pub(crate) struct Engine {
    worker: mpsc::UnboundedSender<Message>,
    permits: Arc<Semaphore>,
    health: Arc<Health>,
}

/// Whether the thread has failed.
#[derive(Default)]
struct Health {
    failed: AtomicBool,
    on_failure: Notify,
}

impl Health {
    fn fail(&self) {
        // Stored before the notification, so that a task that wakes up sees it.
        self.failed.store(true, Ordering::SeqCst);
        // `notify_waiters` wakes the tasks that wait now; `notify_one` leaves a permit for a task
        // that has read `failed` before and is about to wait.
        self.on_failure.notify_waiters();
        self.on_failure.notify_one();
    }
}

impl Engine {
    /// Starts the thread. `queue` is the number of requests that are accepted at a time.
    pub(crate) fn start(models: Vec<Runner>, queue: usize, metrics: Arc<Metrics>) -> Self {
        // Unbounded, because the permits bound the jobs in it.
        let (worker, messages) = mpsc::unbounded_channel();
        let health = Arc::new(Health::default());
        let engine = Self {
            worker,
            permits: Arc::new(Semaphore::new(queue)),
            health: Arc::clone(&health),
        };
        // A thread of its own and no task: a batch occupies it for seconds, without an `.await`.
        thread::spawn(move || {
            let work = AssertUnwindSafe(|| Worker::new(models, metrics).run(messages));
            if !matches!(catch_unwind(work), Ok(Ok(()))) {
                health.fail();
            }
        });
        engine
    }

    /// Takes a slot in the queue, with which a request may translate several times, one after the
    /// other.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(crate) fn permit(&self) -> Result<Permit, Failure> {
        // Turned away at once instead of waiting: a client that knows it can go to another server.
        match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => Ok(Arc::new(permit)),
            Err(_) => Err(Failure::busy()),
        }
    }

    /// Starts to translate lines, and returns the translations as slices in the order of the lines.
    ///
    /// # Errors
    /// The models have failed.
    pub(crate) fn translate(
        &self,
        permit: &Permit,
        options: TranslateOptions,
        lines: Vec<Request>,
    ) -> Result<Slices, Failure> {
        let (slices, translations) = mpsc::channel(MAX_UNREAD_SLICES);
        let job = Job {
            options,
            lines: VecDeque::from(lines),
            permit: Arc::clone(permit),
            slices,
        };
        self.worker
            .send(Message::Translate(job))
            .map_err(|_| Failure::internal())?;
        Ok(Slices {
            translations,
            worker: self.worker.clone(),
            _permit: Arc::clone(permit),
        })
    }

    /// Translates lines as [`Self::translate`] does, and returns all translations together.
    ///
    /// # Errors
    /// The models have failed; a line cannot be translated with these options.
    pub(crate) async fn translate_all(
        &self,
        permit: &Permit,
        options: TranslateOptions,
        lines: Vec<Request>,
    ) -> Result<Vec<Vec<LinkedTranslation>>, Failure> {
        let num_lines = lines.len();
        if num_lines == 0 {
            return Ok(Vec::new());
        }
        let mut slices = self.translate(permit, options, lines)?;
        let mut translations = Vec::with_capacity(num_lines);
        while let Some(slice) = slices.next().await {
            translations.extend(slice?);
        }
        // Fewer, if the worker ended in between.
        if translations.len() == num_lines {
            Ok(translations)
        } else {
            Err(Failure::internal())
        }
    }

    /// Replaces a model; the batch that is being translated ends with the old one.
    pub(crate) fn replace(&self, model: usize, runner: Runner) {
        // If the thread has ended, `failed` has returned, and the server stops.
        let _ = self.worker.send(Message::Replace(model, Box::new(runner)));
    }

    /// Returns whether the models have failed, so that nothing more will be translated.
    pub(crate) fn has_failed(&self) -> bool {
        self.health.failed.load(Ordering::SeqCst)
    }

    /// Returns when the models have failed.
    pub(crate) async fn failed(&self) {
        while !self.has_failed() {
            self.health.on_failure.notified().await;
        }
    }
}
