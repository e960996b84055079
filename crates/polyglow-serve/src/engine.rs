//! The thread that owns the models. It translates what waits in batches, in turns between those who wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use polyglow_model::search::SearchMethod;
use polyglow_train::predict::attention::{WordAttention, of_words};
use polyglow_train::predict::runner::Runner;
use polyglow_train::predict::translate::{Request, Translated};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::failure::Failure;
use crate::metrics::Metrics;

/// Lines of one request that are translated before others have their turn.
const SLICE: usize = 32;
/// Lines that are translated together, at most.
const BATCH: usize = 128;

/// What is asked of the translations of a request. Requests that ask for the same share batches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// Which model.
    pub(crate) model: usize,
    /// Width of the beam, if not the run's.
    pub(crate) beam_size: Option<usize>,
    /// Translations of each line, at most.
    pub(crate) n_best: usize,
    /// How they are looked for, if not as the run does.
    pub(crate) method: Option<SearchMethod>,
    /// Whether what the words of translations look at is found.
    pub(crate) attention: bool,
}

/// A translation of a line.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) translation: Translated,
    /// What each of its words looks at in the last layer; empty if not asked for.
    pub(crate) attention: WordAttention,
}

/// The translations of some lines, the best of each first.
pub(crate) type Slice = Result<Vec<Vec<Found>>, Failure>;

/// A request in work.
struct Job {
    asked: Asked,
    /// What is still to be translated.
    lines: VecDeque<Request>,
    /// Its place in the queue. Fields are dropped in their order: the place is free before the answer is at its end.
    _place: OwnedSemaphorePermit,
    answer: mpsc::UnboundedSender<Slice>,
}

enum Order {
    Translate(Job),
    /// Another model in the place of one.
    Replace(usize, Box<Runner>),
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
    told: Notify,
}

impl Engine {
    /// Starts the thread. `queue` is the number of requests that are taken at a time.
    pub(crate) fn start(models: Vec<Runner>, queue: usize, metrics: Arc<Metrics>) -> Self {
        let (orders, waiting) = mpsc::unbounded_channel();
        let health = Arc::new(Health::default());
        let engine = Self { orders, places: Arc::new(Semaphore::new(queue)), health: Arc::clone(&health) };
        thread::spawn(move || {
            let work = AssertUnwindSafe(|| Worker { models, metrics, jobs: VecDeque::new() }.work(waiting));
            if catch_unwind(work).is_err() {
                health.failed.store(true, Ordering::SeqCst);
                // To whoever waits now, and to whoever asks later.
                health.told.notify_waiters();
                health.told.notify_one();
            }
        });
        engine
    }

    /// Asks for translations of lines, which come in slices, in order.
    ///
    /// # Errors
    /// Too many requests wait; the models have failed.
    pub(crate) fn translate(
        &self,
        asked: Asked,
        lines: Vec<Request>,
    ) -> Result<mpsc::UnboundedReceiver<Slice>, Failure> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Failure::busy())?;
        let (answer, slices) = mpsc::unbounded_channel();
        let job = Job { asked, lines: lines.into(), _place: place, answer };
        self.orders.send(Order::Translate(job)).map_err(|_| Failure::broken())?;
        Ok(slices)
    }

    /// As [`Self::translate`], all slices together.
    ///
    /// # Errors
    /// As [`Self::translate`]; a line cannot be translated as it is asked.
    pub(crate) async fn translate_all(&self, asked: Asked, lines: Vec<Request>) -> Result<Vec<Vec<Found>>, Failure> {
        let wanted = lines.len();
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let mut slices = self.translate(asked, lines)?;
        let mut found = Vec::with_capacity(wanted);
        while let Some(slice) = slices.recv().await {
            found.extend(slice?);
        }
        if found.len() == wanted { Ok(found) } else { Err(Failure::broken()) }
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
            self.health.told.notified().await;
        }
    }
}

struct Worker {
    models: Vec<Runner>,
    metrics: Arc<Metrics>,
    jobs: VecDeque<Job>,
}

impl Worker {
    /// Works until nobody can ask any more. Idle, it starts at once; what comes while it works is in the next batch.
    fn work(&mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            if self.jobs.is_empty() {
                let Some(order) = orders.blocking_recv() else { return };
                self.take(order);
            }
            while let Ok(order) = orders.try_recv() {
                self.take(order);
            }
            // A client that is gone needs nothing.
            self.jobs.retain(|job| !job.answer.is_closed());
            self.batch();
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Translate(job) => self.jobs.push_back(job),
            Order::Replace(model, runner) => self.models[model] = *runner,
        }
    }

    /// Translates a slice of the first request, and of others that ask for the same.
    fn batch(&mut self) {
        let Some(asked) = self.jobs.front().map(|job| job.asked.clone()) else { return };
        let (mut slices, mut count) = (Vec::new(), 0);
        for (place, job) in self.jobs.iter_mut().enumerate() {
            if job.asked == asked && count < BATCH {
                let lines: Vec<Request> = job.lines.drain(..job.lines.len().min(SLICE)).collect();
                count += lines.len();
                slices.push((place, lines));
            }
        }
        let started = Instant::now();
        let mut found = self.translate(&asked, slices.iter().flat_map(|(_, lines)| lines)).ok().map(VecDeque::from);
        for (place, lines) in &slices {
            let of_this = match &mut found {
                Some(found) => Ok(found.drain(..lines.len()).collect()),
                // One of the requests asks for what cannot be: each is tried by itself.
                None => self.translate(&asked, lines),
            };
            let failed = of_this.is_err();
            let job = &mut self.jobs[*place];
            // Whoever does not wait any more is told nothing.
            let _ = job.answer.send(of_this);
            if failed {
                job.lines.clear();
            }
        }
        self.metrics.batch(count, started.elapsed());
        // Whoever was served goes behind those who were not.
        let last = slices.last().map_or(0, |(place, _)| *place);
        self.jobs.rotate_left(last + 1);
        self.jobs.retain(|job| !job.lines.is_empty());
    }

    fn translate<'a>(&mut self, asked: &Asked, lines: impl IntoIterator<Item = &'a Request>) -> Slice {
        let runner = &mut self.models[asked.model];
        let (search, widest) = (runner.search.clone(), runner.tgt.vocab_size());
        runner.search.beam_size = asked.beam_size.unwrap_or(search.beam_size).max(asked.n_best).min(widest);
        runner.search.method = asked.method.unwrap_or(search.method);
        // Who shares a batch is chance in any case, so that the last digits may depend on the number of cores, too.
        runner.spread = true;
        let lines: Vec<Request> = lines.into_iter().cloned().collect();
        let found = match runner.search.validate() {
            Ok(()) => translate(runner, asked, &lines).map_err(|error| Failure::bad(error.to_string())),
            // A width that does not fit the rest of the config's search, such as groups of it.
            Err(error) => Err(Failure::bad(error.to_string())),
        };
        runner.search = search;
        found
    }
}

fn translate(runner: &Runner, asked: &Asked, lines: &[Request]) -> polyglow_train::Result<Vec<Vec<Found>>> {
    let translations = runner.translate(lines, 1)?;
    let plain = |translation| Found { translation, attention: Vec::new() };
    let mut found: Vec<Vec<Found>> =
        translations.into_iter().map(|best| best.into_iter().take(asked.n_best).map(plain).collect()).collect();
    if asked.attention {
        let pairs: Vec<[&str; 2]> = lines
            .iter()
            .zip(&found)
            .flat_map(|(line, best)| best.iter().map(|found| [&*line.text, &*found.translation.text]))
            .collect();
        let attention = of_words(runner, &pairs)?;
        for (found, mut layers) in found.iter_mut().flatten().zip(attention) {
            found.attention = layers.pop().unwrap_or_default();
        }
    }
    Ok(found)
}
