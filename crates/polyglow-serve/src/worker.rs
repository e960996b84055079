//! The thread that owns the models. It translates what waits in batches, in turns between those who
//! wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use polyglow_model::search::{SearchMethod, SearchRequest};
use polyglow_predict::attention::{unit_links, word_attention};
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;
use tokio::sync::mpsc;

use crate::engine::{Asked, LinkedTranslation, Place, Slice};
use crate::failure::Failure;
use crate::metrics::Metrics;

/// Lines of one request that are translated before others have their turn.
const SLICE: usize = 32;
/// Bytes of the lines of one request that are translated before others have their turn, but for a
/// single line, which may be longer: about as many as [`SLICE`] sentences have.
const SLICE_BYTES: usize = 4_000;
/// Lines that are translated together, at most.
const BATCH: usize = 128;
/// Translations whose attention is found at a time: that of all layers is in memory until the last
/// is taken.
const ATTENTION: usize = 32;
/// Bytes of the longest line whose translation is linked with it.
const LINKED: usize = 4_000;
/// Panics of a model in a row after which it is tried with a line of our own. Fewer would try it
/// often for one bad request that is sent again and again; on a lost device every request panics,
/// so that this is soon reached.
const PANICS: usize = 4;
/// What every model can translate.
const PLAIN: &str = "a";

/// A request in work.
pub(crate) struct Job {
    pub(crate) asked: Asked,
    /// What is still to be translated.
    pub(crate) lines: VecDeque<Request>,
    /// Fields are dropped in their order: the place is free before the answer is at its end.
    #[expect(dead_code, reason = "it is held, and dropped with the job")]
    pub(crate) place: Place,
    pub(crate) answer: mpsc::Sender<Slice>,
}

impl Job {
    /// Whether there is room for more of its answer.
    fn is_ready(&self) -> bool {
        self.answer.capacity() > 0
    }
}

pub(crate) enum Order {
    Translate(Job),
    /// Another model in the place of one.
    Replace(usize, Box<Runner>),
    /// A request has room for more of its answer, or wants no more.
    Look,
}

/// No model will translate anything any more.
pub(crate) struct Lost;

/// Why there is no translation.
enum Trouble {
    /// What is asked for cannot be; why.
    Wish(String),
    Panic,
}

pub(crate) struct Worker {
    models: Vec<Runner>,
    /// Panics of each model since it translated anything.
    panics: Vec<usize>,
    metrics: Arc<Metrics>,
    jobs: VecDeque<Job>,
}

impl Worker {
    pub(crate) fn new(models: Vec<Runner>, metrics: Arc<Metrics>) -> Self {
        Self {
            panics: vec![0; models.len()],
            models: models.into_iter().map(spread).collect(),
            metrics,
            jobs: VecDeque::new(),
        }
    }

    /// Works until nobody can ask any more. Idle, it starts at once; what comes while it works is
    /// in the next batch.
    ///
    /// # Errors
    /// A model panics whatever is asked, as when a device is lost.
    pub(crate) fn work(&mut self, mut orders: mpsc::UnboundedReceiver<Order>) -> Result<(), Lost> {
        loop {
            if !self.jobs.iter().any(Job::is_ready) {
                let Some(order) = orders.blocking_recv() else {
                    return Ok(());
                };
                self.take(order);
            }
            while let Ok(order) = orders.try_recv() {
                self.take(order);
            }
            // A client that is gone needs nothing.
            self.jobs.retain(|job| !job.answer.is_closed());
            self.batch()?;
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Translate(job) => self.jobs.push_back(job),
            Order::Replace(model, runner) => {
                self.models[model] = spread(*runner);
                self.panics[model] = 0;
            }
            Order::Look => {}
        }
    }

    /// Translates a slice of the first request that is ready, and of others that ask for the same.
    fn batch(&mut self) -> Result<(), Lost> {
        let Some(asked) = self
            .jobs
            .iter()
            .find(|job| job.is_ready())
            .map(|job| job.asked.clone())
        else {
            return Ok(());
        };
        let (jobs, slices) = self.slices(&asked);
        let started = Instant::now();
        let translations = self.translate_slices(&asked, &slices);
        self.metrics
            .batch(slices.iter().map(Vec::len).sum(), started.elapsed());
        for (&index, slice) in jobs.iter().zip(translations) {
            let job = &mut self.jobs[index];
            if slice.is_err() {
                job.lines.clear();
            }
            // There is room, since it was ready. A client that is gone gets nothing.
            let _ = job.answer.try_send(slice);
        }
        move_behind(&mut self.jobs, &jobs);
        self.jobs.retain(|job| !job.lines.is_empty());
        if self.panics[asked.model] >= PANICS && !self.translates(asked.model) {
            Err(Lost)
        } else {
            Ok(())
        }
    }

    /// The next lines of requests that ask for this, and the indices of their jobs in the queue. A
    /// request that draws samples shares no batch, on whose size the last digits of probabilities
    /// depend, so that its draws do not depend on what others ask for.
    fn slices(&mut self, asked: &Asked) -> (Vec<usize>, Vec<Vec<Request>>) {
        let usual = self.models[asked.model].search().method;
        let is_alone = asked.search.method.unwrap_or(usual) == SearchMethod::Sample;
        let mut jobs = Vec::new();
        let mut slices = Vec::new();
        let mut room = BATCH;
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let is_full = room == 0 || is_alone && !slices.is_empty();
            if !is_full && job.asked == *asked && job.is_ready() {
                let lines: Vec<Request> = job.lines.drain(..slice_len(&job.lines, room)).collect();
                room -= lines.len();
                jobs.push(index);
                slices.push(lines);
            }
        }
        (jobs, slices)
    }

    /// The translations of slices: together, or of each by itself if one of them asks for what
    /// cannot be.
    fn translate_slices(&mut self, asked: &Asked, slices: &[Vec<Request>]) -> Vec<Slice> {
        if let [_, _, ..] = slices
            && let Ok(translations) = self.translate(asked, &slices.concat())
        {
            let mut translations = translations.into_iter();
            return slices
                .iter()
                .map(|lines| Ok(translations.by_ref().take(lines.len()).collect()))
                .collect();
        }
        slices
            .iter()
            .map(|lines| self.translate_alone(asked, lines))
            .collect()
    }

    fn translate_alone(&mut self, asked: &Asked, lines: &[Request]) -> Slice {
        self.translate(asked, lines)
            .map_err(|trouble| match trouble {
                Trouble::Wish(error) => Failure::bad(error),
                Trouble::Panic => {
                    self.panics[asked.model] += 1;
                    Failure::broken()
                }
            })
    }

    /// Whether a model still translates anything.
    fn translates(&mut self, model: usize) -> bool {
        let asked = Asked {
            model,
            search: SearchRequest::default(),
            attention: false,
            links: false,
        };
        let line = Request {
            text: PLAIN.to_owned(),
            ..Request::default()
        };
        !matches!(self.translate(&asked, &[line]), Err(Trouble::Panic))
    }

    fn translate(
        &mut self,
        asked: &Asked,
        lines: &[Request],
    ) -> Result<Vec<Vec<LinkedTranslation>>, Trouble> {
        let runner = &self.models[asked.model];
        let result = catch_unwind(AssertUnwindSafe(|| translate(runner, asked, lines)));
        match result {
            Ok(Ok(translations)) => {
                self.panics[asked.model] = 0;
                Ok(translations)
            }
            Ok(Err(error)) => Err(Trouble::Wish(error)),
            // What it says may have a part of a text in it.
            Err(_) => Err(Trouble::Panic),
        }
    }
}

/// Returns a runner that has a batch for each core. Which requests share a batch is chance in any
/// case, so the last digits of scores may depend on the number of cores, too.
fn spread(mut runner: Runner) -> Runner {
    runner.spread = true;
    runner
}

fn translate(
    runner: &Runner,
    asked: &Asked,
    lines: &[Request],
) -> Result<Vec<Vec<LinkedTranslation>>, String> {
    let mut translations = runner
        .translate(lines, &asked.search)
        .map_err(|error| error.to_string())?;
    let sources: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    runner
        .replace_unknown(&sources, &mut translations)
        .map_err(|error| error.to_string())?;
    let plain = |translation| LinkedTranslation {
        translation,
        attention: Vec::new(),
        links: Vec::new(),
    };
    let mut found: Vec<Vec<LinkedTranslation>> = translations
        .into_iter()
        .map(|best| best.into_iter().map(plain).collect())
        .collect();
    if asked.attention {
        let mut pairs: Vec<(&Request, &mut LinkedTranslation)> = Vec::new();
        for (line, best) in lines.iter().zip(&mut found) {
            pairs.extend(best.iter_mut().map(|found| (line, found)));
        }
        pairs
            .chunks_mut(ATTENTION)
            .try_for_each(|pairs| attend(runner, pairs))?;
    }
    if asked.links {
        let mut pairs: Vec<(&Request, &mut LinkedTranslation)> = Vec::new();
        for (line, best) in lines.iter().zip(&mut found) {
            pairs.extend(
                best.first_mut()
                    .filter(|_| has_weights_for(line))
                    .map(|best| (line, best)),
            );
        }
        pairs
            .chunks_mut(ATTENTION)
            .try_for_each(|pairs| link(runner, pairs))?;
    }
    Ok(found)
}

/// Finds what the words of some translations look at in the last layer.
fn attend(runner: &Runner, pairs: &mut [(&Request, &mut LinkedTranslation)]) -> Result<(), String> {
    let texts: Vec<[&str; 2]> = pairs
        .iter()
        .map(|(line, found)| [&*line.text, &*found.translation.text])
        .collect();
    let attention = word_attention(runner, &texts).map_err(|error| error.to_string())?;
    for ((_, found), mut layers) in pairs.iter_mut().zip(attention) {
        found.attention = layers.pop().unwrap_or_default();
    }
    Ok(())
}

/// Links the units of some translations with those of their sources.
fn link(runner: &Runner, pairs: &mut [(&Request, &mut LinkedTranslation)]) -> Result<(), String> {
    let texts: Vec<[&str; 2]> = pairs
        .iter()
        .map(|(line, found)| [&*line.text, &*found.translation.text])
        .collect();
    let links = unit_links(runner, &texts).map_err(|error| error.to_string())?;
    for ((_, found), links) in pairs.iter_mut().zip(links) {
        found.links = links;
    }
    Ok(())
}

/// Whether a line is short enough for its attention, which takes memory by the square of its
/// length.
fn has_weights_for(line: &Request) -> bool {
    line.text.len() <= LINKED
}

/// Returns how many of a request's next lines are translated before others have their turn, with
/// `room` for at least one.
fn slice_len(lines: &VecDeque<Request>, room: usize) -> usize {
    let mut bytes = 0;
    let mut len = 0;
    for line in lines.iter().take(SLICE.min(room)) {
        bytes += line.text.len();
        if len > 0 && bytes > SLICE_BYTES {
            break;
        }
        len += 1;
    }
    len
}

/// Moves what has some indices, in ascending order, behind the rest. Both keep their order.
fn move_behind<T>(queue: &mut VecDeque<T>, indices: &[usize]) {
    let mut first = VecDeque::new();
    let mut last = VecDeque::new();
    for (index, one) in queue.drain(..).enumerate() {
        let part = if indices.binary_search(&index).is_ok() {
            &mut last
        } else {
            &mut first
        };
        part.push_back(one);
    }
    first.append(&mut last);
    *queue = first;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_leave_others_their_turn() {
        let lines = |lens: &[usize]| -> VecDeque<Request> {
            let line = |len: &usize| Request {
                text: "a".repeat(*len),
                ..Request::default()
            };
            lens.iter().map(line).collect()
        };
        assert_eq!(slice_len(&lines(&[10; 100]), 128), SLICE);
        assert_eq!(slice_len(&lines(&[10; 100]), 5), 5);
        assert_eq!(slice_len(&lines(&[1_500; 100]), 128), 2);
        assert_eq!(slice_len(&lines(&[9_998; 100]), 128), 1);
        assert_eq!(slice_len(&lines(&[10]), 128), 1);
    }

    #[test]
    fn whoever_was_served_is_behind_those_who_were_not() {
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
