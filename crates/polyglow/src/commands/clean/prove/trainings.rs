//! The trainings of a proof.

use std::path::PathBuf;
use std::thread;

use polyglow_data::config::{Split, TrainFiles};
use polyglow_data::file;
use polyglow_data::lines::Lines;
use polyglow_metrics::Statistics;
use polyglow_model::computes_on_host;
use polyglow_predict::error::Context;
use polyglow_predict::group::alone;
use polyglow_predict::{device, parallel};
use polyglow_train::config::{Config, ScheduleKind};
use polyglow_train::run::runner;
use polyglow_train::tasks::{HeldOut, evaluate};
use polyglow_train::train::{Ending, Schedule, Stop, TrainReport, Training};
use polyglow_train::{Observer, Result, Silent};
use serde_json::Value;

use super::outcome::{count, score};
use super::texts::{TrainingText, proved_groups};
use super::{Preparation, ProveArgs};
use crate::activity::Pace;
use crate::inspection::measure;
use crate::signals::Signals;

impl Preparation<'_> {
    /// Trains on each text with each seed, some at the same time; all texts with the first seed come
    /// first. Returns what BLEU counts in the translations of each seed, for each text; `None` if it
    /// was interrupted.
    ///
    /// # Errors
    /// A training fails, which ends the others; a file cannot be read or written.
    pub(super) fn train(
        &self,
        texts: &[TrainingText],
    ) -> anyhow::Result<Option<Vec<Vec<Statistics>>>> {
        let trainings: Vec<SeedTraining> = (1..=self.args.seeds as u64)
            .flat_map(|seed| {
                texts.iter().map(move |text| SeedTraining {
                    proof: self,
                    text,
                    seed,
                })
            })
            .collect();
        let mut results: Vec<Option<Statistics>> = trainings
            .iter()
            .map(SeedTraining::saved_statistics)
            .collect::<Result<_>>()?;
        let pending: Vec<usize> = (0..trainings.len())
            .filter(|index| results[*index].is_none())
            .collect();
        let done_before = trainings.len() - pending.len();
        let pace = Pace::from(done_before as u64);
        let jobs = jobs(self.args, self.config)?;
        let signals = Signals::install()?;
        signals.save_from_now_on();
        parallel::each(
            pending.len(),
            jobs,
            |index| trainings[pending[index]].run_unless_stopped(&signals.stop),
            |index, statistics| {
                if let Some(statistics) = &statistics {
                    let done = done_before + index + 1;
                    let score = score(&self.bleu, statistics);
                    let training = trainings[pending[index]].title();
                    let all = trainings.len();
                    // The pace of the first ones is that of one for the time that all of them take.
                    let left = if index + 1 >= jobs {
                        format!("; left {}", pace.time_left(done as u64, all as u64))
                    } else {
                        String::new()
                    };
                    tracing::info!("{done} of {all}: {training}: {score:.2} BLEU{left}");
                }
                results[pending[index]] = statistics;
            },
        )?;
        signals.end_process_from_now_on();
        let Some(results) = results.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut by_text = vec![Vec::new(); texts.len()];
        for (index, statistics) in results.into_iter().enumerate() {
            by_text[index % texts.len()].push(statistics);
        }
        Ok(Some(by_text))
    }

    /// Counts what BLEU counts in translations of the validation set.
    ///
    /// # Errors
    /// There are not as many as references.
    fn count(&self, translations: &[String]) -> Result<Statistics> {
        count(&self.bleu, translations, &self.references)
    }
}

/// Returns the number of trainings at a time: as many as are requested, or one for each core of a
/// CPU and one on a GPU.
///
/// # Errors
/// The config's device cannot be opened.
fn jobs(args: &ProveArgs, config: &Config) -> Result<usize> {
    if let Some(jobs) = args.jobs {
        return Ok(jobs);
    }
    let on_host = computes_on_host(&device::open(&config.device)?);
    Ok(if on_host { device::threads() } else { 1 })
}

/// Returns how many steps a training makes in some minutes, with its validation, while as many others
/// run as there will be.
///
/// # Errors
/// A trial step fails.
pub(super) fn steps_in(minutes: f64, args: &ProveArgs, config: &Config) -> anyhow::Result<u64> {
    let most_texts = match args.texts.len() {
        0 => 1 + proved_groups().count(),
        requested => requested,
    };
    let most_trainings = args.seeds * (1 + most_texts + args.compare.len());
    let jobs = jobs(args, config)?.min(most_trainings);
    let mut config = config.clone();
    // The loader demands a length; a trial step changes nothing.
    config.train.max_steps = Some(1);
    config.train.warmup_steps = 0;
    set_schedule(&mut config, "constant");
    let directory = tempfile::tempdir()?;
    let training = Training::prepare(config.clone(), directory.path(), &mut Silent)?;
    let mut times = Vec::new();
    parallel::each(
        jobs,
        jobs,
        |_| Ok(measure(&training, config.clone())),
        |_, time| times.push(time),
    )?;
    let mut least = u64::MAX;
    for time in times {
        let (_, time) = time?;
        let steps = steps_that_fit(60.0 * minutes, time.step_seconds, time.validation_seconds);
        least = least.min(steps);
    }
    Ok(least)
}

/// Returns the number of steps that fit into a time together with a validation, at least one.
fn steps_that_fit(seconds: f64, step_seconds: f64, validation_seconds: f64) -> u64 {
    ((seconds - validation_seconds) / step_seconds).max(1.0) as u64
}

fn set_schedule(config: &mut Config, name: &str) {
    config.train.schedule = ScheduleKind::named(name).expect("it is built in");
}

/// A training on one text with one seed.
struct SeedTraining<'a> {
    proof: &'a Preparation<'a>,
    text: &'a TrainingText,
    seed: u64,
}

impl SeedTraining<'_> {
    /// Returns its name in messages.
    fn title(&self) -> String {
        format!("{}, seed {}", self.text.name, self.seed)
    }

    /// Returns the directory of its text.
    fn dir(&self) -> PathBuf {
        self.proof.dir.join(&self.text.name)
    }

    /// The file of the translations.
    fn path(&self) -> PathBuf {
        self.dir().join(format!("seed-{}.txt", self.seed))
    }

    /// Returns the statistics of BLEU of the translations, if an earlier command has made them.
    ///
    /// # Errors
    /// They cannot be read.
    fn saved_statistics(&self) -> Result<Option<Statistics>> {
        let path = self.path();
        if !path.exists() {
            return Ok(None);
        }
        let lines: Vec<String> = Lines::open(&path)?.collect::<Result<_, _>>()?;
        let is_complete = lines.len() == self.proof.references.len();
        is_complete.then(|| self.proof.count(&lines)).transpose()
    }

    /// As [`Self::run`], unless a stop is requested. An error or a panic requests one, so that what
    /// is trained at the same time is saved and ends.
    ///
    /// # Errors
    /// As [`Self::run`].
    fn run_unless_stopped(&self, stop: &Stop) -> Result<Option<Statistics>> {
        if stop.is_requested() {
            return Ok(None);
        }
        let _guard = StopOnPanic(stop);
        self.run(stop).inspect_err(|_| stop.request())
    }

    /// Trains, translates the validation set, and returns what BLEU counts in the translations; `None`
    /// if it was interrupted.
    ///
    /// # Errors
    /// The training or the translation fails; the translations cannot be written.
    fn run(&self, stop: &Stop) -> Result<Option<Statistics>> {
        let config = self.config();
        let run = self.dir().join(format!("run-{}", self.seed));
        let mut log = ProgressLog {
            title: self.title(),
            last_step: self.proof.steps,
        };
        let mut training = Training::prepare_among(&alone(), config, None, run, &mut log)?;
        if stop.is_requested() {
            return Ok(None);
        }
        let (ending, _) = training.run(stop, &mut log)?;
        if ending == Ending::Stopped || stop.is_requested() {
            return Ok(None);
        }
        let Training { run, plan, .. } = &training;
        let runner = runner(vec![run.load("last", &plan.device)?], plan)?;
        let corpus = run.open_set(&plan.config, Split::Valid)?;
        let tokenizer = self.proof.bleu.tokenizer.clone();
        let lines = evaluate(&runner, &HeldOut::read(&corpus)?, &tokenizer.into())?.hypotheses;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let path = self.path();
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        self.proof.count(&lines).map(Some)
    }

    /// The config of the training: the user's, on this text, for fewer steps.
    fn config(&self) -> Config {
        let steps = self.proof.steps;
        let mut config = self.proof.config.clone();
        config.seed = self.seed;
        config.data.train = Some(TrainFiles::One(self.dir().join("train")));
        config.data.test = None;
        let d_model = config.model.width();
        let train = &mut config.train;
        train.max_steps = Some(steps);
        train.max_epochs = None;
        train.patience = 0;
        train.warmup_steps = train.warmup_steps.min(steps / 4);
        train.save_every = train.save_every.min(steps);
        train.validate_every = steps;
        train.log_every = steps.div_ceil(5);
        // While the rate is high a model's scores change from step to step, above all the length of
        // what it writes, by more than most filters are worth.
        if !train.schedule.0.depends_on_last_step() {
            train.lr = Schedule::new(train, steps, d_model).learning_rate(train.warmup_steps);
            set_schedule(&mut config, "linear");
        }
        config
    }
}

/// Requests a stop when it is dropped by a panic.
struct StopOnPanic<'a>(&'a Stop);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.request();
        }
    }
}

/// Prints how far one of several trainings is.
struct ProgressLog {
    title: String,
    last_step: u64,
}

impl Observer for ProgressLog {
    fn report(&mut self, report: &TrainReport<'_>, _record: &Value) {
        let TrainReport { step, interval, .. } = report;
        tracing::info!(
            "{}: step {step}/{}, loss {:.3}, {:.0} tok/s",
            self.title,
            self.last_step,
            interval.loss(),
            report.tokens_per_second()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_as_many_steps_as_fit_beside_a_validation() {
        assert_eq!(steps_that_fit(180.0, 0.5, 30.0), 300);
        assert_eq!(steps_that_fit(6.0, 0.5, 30.0), 1);
    }

    #[test]
    fn a_panic_requests_a_stop() {
        let stop = Stop::default();
        let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = StopOnPanic(&stop);
            drop(StopOnPanic(&stop));
            assert!(stop.is_requested(), "nothing has panicked yet");
        }));
        assert!(panicking.is_err() && stop.is_requested());
    }
}
