//! The thread that owns the models. It translates the lines of waiting requests in batches, and
//! alternates between the requests.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use polyglow_model::search::{SearchMethod, SearchRequest};
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;
use tokio::sync::mpsc;

use crate::engine::{LinkedTranslation, Permit, Slice, TranslateOptions};
use crate::failure::Failure;
use crate::inference::translate;
use crate::metrics::Metrics;

/// Lines of one request in a batch, at most: then it is the turn of others.
const MAX_SLICE_LINES: usize = 32;
/// Bytes of the lines of one request in a batch, at most, except for a single line, which may be
/// longer: about as many as [`MAX_SLICE_LINES`] sentences have.
const MAX_SLICE_BYTES: usize = 4_000;
/// Lines of a batch, at most.
const MAX_BATCH_LINES: usize = 128;
/// Panics of a model in a row after which it is tried with a line of our own. With fewer, one bad
/// request that is sent again and again would cause many trials; on a lost device every request
/// panics, so that this number is soon reached.
const MAX_PANICS: usize = 4;
/// A line that every working model can translate.
const PROBE: &str = "a";

/// A request of which lines are still to be translated.
pub(crate) struct Job {
    pub(crate) options: TranslateOptions,
    /// The lines that are still to be translated.
    pub(crate) lines: VecDeque<Request>,
    // Fields are dropped in this order: the worker's share of the permit is gone before the client
    // sees the end of its answer, so that the slot is free once the client has dropped its own.
    #[expect(dead_code, reason = "it is held, and dropped with the job")]
    pub(crate) permit: Permit,
    pub(crate) slices: mpsc::Sender<Slice>,
}

impl Job {
    /// Returns whether the client has room for another slice.
    fn is_ready(&self) -> bool {
        self.slices.capacity() > 0
    }
}

/// A message to the worker.
pub(crate) enum Message {
    Translate(Job),
    /// Replaces the model with this index.
    Replace(usize, Box<Runner>),
    /// A client has read a slice or has disconnected: jobs are to be checked again.
    Wake,
}

/// The error of a model that will not translate anything anymore.
pub(crate) struct Lost;

/// Why lines are not translated.
enum TranslateError {
    /// The request asks for what is impossible; the message says why.
    Request(String),
    /// The model panicked.
    Panic,
}

/// The models and the requests that wait for them.
pub(crate) struct Worker {
    models: Vec<Runner>,
    /// Panics of each model since its last translation.
    panics: Vec<usize>,
    metrics: Arc<Metrics>,
    /// The jobs, those that have waited longest first.
    jobs: VecDeque<Job>,
}

impl Worker {
    pub(crate) fn new(models: Vec<Runner>, metrics: Arc<Metrics>) -> Self {
        Self {
            panics: vec![0; models.len()],
            models: models.into_iter().map(with_spread_batches).collect(),
            metrics,
            jobs: VecDeque::new(),
        }
    }

    /// Works until all senders of messages are dropped. When idle, it starts a batch at the first
    /// message; requests that arrive during a batch are in the next one.
    ///
    /// # Errors
    /// A model panics on every line, as when a device is lost.
    pub(crate) fn run(
        &mut self,
        mut messages: mpsc::UnboundedReceiver<Message>,
    ) -> Result<(), Lost> {
        loop {
            if !self.jobs.iter().any(Job::is_ready) {
                let Some(message) = messages.blocking_recv() else {
                    return Ok(());
                };
                self.handle(message);
            }
            // All that have arrived, so that as many requests as possible share the batch.
            while let Ok(message) = messages.try_recv() {
                self.handle(message);
            }
            // Jobs of clients that have disconnected.
            self.jobs.retain(|job| !job.slices.is_closed());
            self.run_batch()?;
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Translate(job) => self.jobs.push_back(job),
            Message::Replace(model, runner) => {
                self.models[model] = with_spread_batches(*runner);
                self.panics[model] = 0;
            }
            Message::Wake => {}
        }
    }

    /// Translates a slice of the first job that is ready, and of others with the same options.
    fn run_batch(&mut self) -> Result<(), Lost> {
        let Some(first) = self.jobs.iter().find(|job| job.is_ready()) else {
            return Ok(());
        };
        let options = first.options.clone();
        let (jobs, slices) = self.take_slices(&options);
        let started = Instant::now();
        let translations = self.translate_slices(&options, &slices);
        self.metrics
            .batch(slices.iter().map(Vec::len).sum(), started.elapsed());
        for (&index, slice) in jobs.iter().zip(translations) {
            let job = &mut self.jobs[index];
            // An error ends the answer of a request, so its other lines are not needed.
            if slice.is_err() {
                job.lines.clear();
            }
            // There is room, since the job was ready. It fails if the client has disconnected.
            let _ = job.slices.try_send(slice);
        }
        move_behind(&mut self.jobs, &jobs);
        // Dropping a job drops its sender, which tells the client that its answer is complete.
        self.jobs.retain(|job| !job.lines.is_empty());
        if self.panics[options.model] >= MAX_PANICS && !self.is_working(options.model) {
            Err(Lost)
        } else {
            Ok(())
        }
    }

    /// Takes the next lines of jobs with these options. Returns the indices of these jobs in the
    /// queue, and the lines of each.
    fn take_slices(&mut self, options: &TranslateOptions) -> (Vec<usize>, Vec<Vec<Request>>) {
        let usual = self.models[options.model].search().method;
        // The last digits of probabilities depend on the size of the batch. They may decide what is
        // drawn, so samples of a request would depend on other requests in its batch.
        let is_alone = options.search.method.unwrap_or(usual) == SearchMethod::Sample;
        let mut jobs = Vec::new();
        let mut slices = Vec::new();
        let mut room = MAX_BATCH_LINES;
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let is_full = room == 0 || is_alone && !slices.is_empty();
            if !is_full && job.options == *options && job.is_ready() {
                let num_lines = slice_len(&job.lines, room);
                let lines: Vec<Request> = job.lines.drain(..num_lines).collect();
                room -= num_lines;
                jobs.push(index);
                slices.push(lines);
            }
        }
        (jobs, slices)
    }

    /// Translates slices together. If that fails, each is translated by itself, so that only the
    /// request that is the cause gets an error.
    fn translate_slices(
        &mut self,
        options: &TranslateOptions,
        slices: &[Vec<Request>],
    ) -> Vec<Slice> {
        if let [_, _, ..] = slices
            && let Ok(translations) = self.translate(options, &slices.concat())
        {
            let mut translations = translations.into_iter();
            return slices
                .iter()
                .map(|lines| Ok(translations.by_ref().take(lines.len()).collect()))
                .collect();
        }
        slices
            .iter()
            .map(|lines| self.translate_slice(options, lines))
            .collect()
    }

    fn translate_slice(&mut self, options: &TranslateOptions, lines: &[Request]) -> Slice {
        match self.translate(options, lines) {
            Ok(translations) => Ok(translations),
            Err(TranslateError::Request(error)) => Err(Failure::bad_request(error)),
            Err(TranslateError::Panic) => {
                // Counted here and not for slices together, which are then translated again.
                self.panics[options.model] += 1;
                Err(Failure::internal())
            }
        }
    }

    /// Returns whether a model still translates a line that every model can.
    fn is_working(&mut self, model: usize) -> bool {
        let options = TranslateOptions {
            model,
            search: SearchRequest::default(),
            attention: false,
            links: false,
        };
        let line = Request {
            text: PROBE.to_owned(),
            ..Request::default()
        };
        let result = self.translate(&options, &[line]);
        !matches!(result, Err(TranslateError::Panic))
    }

    fn translate(
        &mut self,
        options: &TranslateOptions,
        lines: &[Request],
    ) -> Result<Vec<Vec<LinkedTranslation>>, TranslateError> {
        let runner = &self.models[options.model];
        let result = catch_unwind(AssertUnwindSafe(|| translate(runner, options, lines)));
        match result {
            Ok(Ok(translations)) => {
                self.panics[options.model] = 0;
                Ok(translations)
            }
            Ok(Err(error)) => Err(TranslateError::Request(error)),
            // Without the message of the panic, which may contain a part of a text.
            Err(_) => Err(TranslateError::Panic),
        }
    }
}

/// Returns a runner that has a batch for each core. The requests that share a batch differ from
/// time to time anyway, so the last digits of scores may depend on the number of cores, too.
fn with_spread_batches(mut runner: Runner) -> Runner {
    runner.spread = true;
    runner
}

/// Returns how many of a request's next lines are translated before it is the turn of others, with
/// `room` for at least one.
fn slice_len(lines: &VecDeque<Request>, room: usize) -> usize {
    let mut bytes = 0;
    let mut len = 0;
    for line in lines.iter().take(MAX_SLICE_LINES.min(room)) {
        bytes += line.text.len();
        if len > 0 && bytes > MAX_SLICE_BYTES {
            break;
        }
        len += 1;
    }
    len
}

/// Moves the items at some indices, in ascending order, behind the rest. Both keep their order.
fn move_behind<T>(queue: &mut VecDeque<T>, indices: &[usize]) {
    let mut front = VecDeque::new();
    let mut back = VecDeque::new();
    for (index, item) in queue.drain(..).enumerate() {
        if indices.binary_search(&index).is_ok() {
            back.push_back(item);
        } else {
            front.push_back(item);
        }
    }
    front.append(&mut back);
    *queue = front;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lens: &[usize]) -> VecDeque<Request> {
        let line = |len: &usize| Request {
            text: "a".repeat(*len),
            ..Request::default()
        };
        lens.iter().map(line).collect()
    }

    #[test]
    fn long_lines_leave_others_their_turn() {
        assert_eq!(slice_len(&lines(&[10; 100]), 128), MAX_SLICE_LINES);
        assert_eq!(slice_len(&lines(&[10; 100]), 5), 5);
        assert_eq!(slice_len(&lines(&[1_500; 100]), 128), 2);
        assert_eq!(slice_len(&lines(&[9_998; 100]), 128), 1);
        assert_eq!(slice_len(&lines(&[10]), 128), 1);
    }

    #[test]
    fn a_request_that_was_served_is_behind_those_that_were_not() {
        for (served, expected) in [
            // The first and the last ask for the same: the one between them is next.
            (&[0, 2][..], ["B", "A", "A2"]),
            (&[0], ["B", "A2", "A"]),
            (&[1], ["A", "A2", "B"]),
            (&[0, 1, 2], ["A", "B", "A2"]),
        ] {
            let mut queue = VecDeque::from(["A", "B", "A2"]);
            move_behind(&mut queue, served);
            assert_eq!(queue, expected, "{served:?}");
        }
    }
}
