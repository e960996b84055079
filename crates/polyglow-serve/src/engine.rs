//! The way to the thread that owns the models.

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
use crate::worker::{Job, Order, Worker};

/// Slices that wait for whoever asked for them, at most. A request with as many is passed over, so
/// that what nobody reads does not pile up; fewer would keep a reader waiting who is busy for a
/// moment.
const AHEAD: usize = 4;

/// What is asked of the translations of a request. Requests that ask for the same share batches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// Which model.
    pub(crate) model: usize,
    /// How translations are searched for, how many of each line are returned at most, and whether
    /// with scores.
    pub(crate) search: SearchRequest,
    /// Whether what the words of translations look at is found.
    pub(crate) attention: bool,
    /// Whether the units of the best translations are linked with those of the sources.
    pub(crate) links: bool,
}

/// A translation of a line.
#[derive(Clone, Debug)]
pub(crate) struct LinkedTranslation {
    pub(crate) translation: Translated,
    /// What each of its words looks at in the last layer; empty if not asked for.
    pub(crate) attention: WordAttention,
    /// Which parts of the line its parts are translated from; empty if not asked for.
    pub(crate) links: Vec<UnitLink>,
}

/// The translations of some lines, the best of each first.
pub(crate) type Slice = Result<Vec<Vec<LinkedTranslation>>, Failure>;

/// A place in the queue, free again when nobody holds it any more: neither whoever asked nor the
/// thread.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

/// The translations of a request as they come. Whoever drops it wants no more.
pub(crate) struct Slices {
    translations: mpsc::Receiver<Slice>,
    orders: mpsc::UnboundedSender<Order>,
    _place: Place,
}

impl Slices {
    /// The next of them, in order; `None` when no more can come.
    pub(crate) async fn next(&mut self) -> Option<Slice> {
        let slice = self.translations.recv().await;
        // There is room again. A thread that has ended needs no telling.
        let _ = self.orders.send(Order::Look);
        slice
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        // In this order, so that the thread sees that it is closed when it looks.
        self.translations.close();
        let _ = self.orders.send(Order::Look);
    }
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Engine {
    orders: mpsc::UnboundedSender<Order>,
    places: Arc<Semaphore>,
    health: Arc<Health>,
}

/// Whether the thread works.
#[derive(Default)]
struct Health {
    failed: AtomicBool,
    on_failure: Notify,
}

impl Engine {
    /// Starts the thread. `queue` is the number of requests that are taken at a time.
    pub(crate) fn start(models: Vec<Runner>, queue: usize, metrics: Arc<Metrics>) -> Self {
        let (orders, waiting) = mpsc::unbounded_channel();
        let health = Arc::new(Health::default());
        let engine = Self {
            orders,
            places: Arc::new(Semaphore::new(queue)),
            health: Arc::clone(&health),
        };
        thread::spawn(move || {
            let work = AssertUnwindSafe(|| Worker::new(models, metrics).work(waiting));
            if !matches!(catch_unwind(work), Ok(Ok(()))) {
                health.failed.store(true, Ordering::SeqCst);
                // To whoever waits now, and to whoever asks later.
                health.on_failure.notify_waiters();
                health.on_failure.notify_one();
            }
        });
        engine
    }

    /// Takes a place in the queue, with which one may ask several times, one after the other.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        Arc::clone(&self.places)
            .try_acquire_owned()
            .map(Arc::new)
            .map_err(|_| Failure::busy())
    }

    /// Asks for translations of lines, which come in slices, in order.
    ///
    /// # Errors
    /// The models have failed.
    pub(crate) fn translate(
        &self,
        place: &Place,
        asked: Asked,
        lines: Vec<Request>,
    ) -> Result<Slices, Failure> {
        let (answer, translations) = mpsc::channel(AHEAD);
        let job = Job {
            asked,
            lines: VecDeque::from(lines),
            place: Arc::clone(place),
            answer,
        };
        self.orders
            .send(Order::Translate(job))
            .map_err(|_| Failure::broken())?;
        Ok(Slices {
            translations,
            orders: self.orders.clone(),
            _place: Arc::clone(place),
        })
    }

    /// As [`Self::translate`], all slices together.
    ///
    /// # Errors
    /// As [`Self::translate`]; a line cannot be translated as it is asked.
    pub(crate) async fn translate_all(
        &self,
        place: &Place,
        asked: Asked,
        lines: Vec<Request>,
    ) -> Result<Vec<Vec<LinkedTranslation>>, Failure> {
        let num_lines = lines.len();
        if num_lines == 0 {
            return Ok(Vec::new());
        }
        let mut slices = self.translate(place, asked, lines)?;
        let mut translations = Vec::with_capacity(num_lines);
        while let Some(slice) = slices.next().await {
            translations.extend(slice?);
        }
        if translations.len() == num_lines {
            Ok(translations)
        } else {
            Err(Failure::broken())
        }
    }

    /// Puts another model in the place of one; what is being translated ends with the old one.
    pub(crate) fn replace(&self, model: usize, runner: Runner) {
        // A thread that has ended is told by `failed`.
        let _ = self.orders.send(Order::Replace(model, Box::new(runner)));
    }

    /// Whether the models have failed, so that nothing more will be translated.
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
