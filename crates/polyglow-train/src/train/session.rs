//! A training under way: the model, the optimizer, and where it stands.

mod improvement;
mod save;
mod warm_up;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::file;
use polyglow_data::prefetch::{BatchStream, Placed};
use polyglow_data::sources::{BatchSource, Sharded};
use polyglow_predict::device::instructions;
use polyglow_predict::error::{Context, Result, ensure, failed, with_hint};
use polyglow_predict::evaluation::Scores;
use polyglow_predict::model::load_weights;
use serde_json::json;

use super::monitor::Monitor;
use super::optimizer::{Optimizer, freeze};
use super::resume::warn_of_other_instructions;
use super::schedule::{Schedule, check_same};
use super::step::{StepConfig, step_across};
use super::sums::{SumAcross, alone, among};
use super::{Ending, TrainReport, Training, last_step};
use crate::config::BestMetric;
use crate::observer::Observer;
use crate::run::records::Records;
use crate::run::{Best, Checkpoints, TrainState};
use crate::tasks::{BatchSize, MicroBatch, Task, Validation, held_out_span};
use crate::workload::BatchShape;

/// A loss has risen if it is above the lowest by this part of the loss of a model that has learned
/// nothing.
const RISEN: f64 = 0.1;
/// No model begins with a loss that is so many times that of a model that has learned nothing.
const FAR: f64 = 1.5;

/// A training under way.
pub struct Session<'a, T: Task> {
    /// Where it stands.
    pub state: TrainState,
    training: &'a Training,
    task: &'a T,
    device: Device,
    model: Option<T::Model>,
    optimizer: Optimizer,
    schedule: Schedule,
    last_step: u64,
    across: Box<SumAcross<'a>>,
    monitor: Monitor,
    checkpoints: Checkpoints,
    /// The newest whole checkpoint.
    saved: Option<PathBuf>,
    /// The best validation before the newest that was better, and those since: the newest may not
    /// be written yet.
    before_best: (Option<Best>, u64),
    stepping: Duration,
    /// Tokens of the interval that an earlier process saw, in time that this one does not know.
    untimed_tokens: u64,
    /// The newest batch that the device was given, for the message should it fail.
    batch: Cell<Option<BatchShape>>,
    /// Whether it has been said that the ranks do not compute the same bits.
    warned_of_drift: bool,
    /// The lowest loss of the reports so far, in nats per target token.
    lowest_loss: f64,
    /// Whether it has been said that the loss has diverged.
    warned_of_divergence: bool,
}

impl<'a, T: Task> Session<'a, T> {
    /// Takes up the newest whole checkpoint of the run, or starts with the weights of `model`.
    ///
    /// # Errors
    /// There are checkpoints and none is whole; one does not fit the configuration; the training
    /// text yields no batch.
    pub fn start(training: &'a Training, task: &'a T, mut model: T::Model) -> Result<Self> {
        let config = &training.plan.config;
        let device = training.plan.training_device()?;
        let checkpoints = training.run.checkpoints(config.train.keep_last);
        model = freeze(model, &config.train.freeze)?;
        let mut optimizer =
            Optimizer::with_rule((training.rule)(&config.train), &config.train, &model);
        let group = &training.plan.group;
        // Only rank 0 reads, so that all agree which checkpoint is the newest.
        let resumed = group.share(|| resume(training, &checkpoints, &mut model, &mut optimizer))?;
        let (mut state, saved) = match resumed {
            Some((state, path)) => (serde_json::from_str(&state)?, Some(path)),
            None => (TrainState::default(), None),
        };
        let own_schedule = training.schedule.as_ref().map(|own| &*own.name);
        if state.step > 0 {
            check_same(state.schedule.as_deref(), own_schedule)?;
        }
        state.schedule = own_schedule.map(str::to_owned);
        state.text = Some(training.hashes.clone());
        let epoch_len = task.source().plan(0).map_err(Into::into)?.len();
        let last_step = last_step(&config.train, epoch_len);
        let schedule = Schedule::new(&config.train, last_step, training.plan.d_model())
            .replaced_by(training.schedule.clone());
        let untimed_tokens = state.interval.tokens;
        let across: Box<SumAcross<'a>> = if group.is_alone() {
            Box::new(alone)
        } else {
            Box::new(|sums| among(&**group, config.train.exchange_precision, sums))
        };
        let mut session = Self {
            state,
            training,
            task,
            device,
            model: Some(model),
            optimizer,
            schedule,
            last_step,
            across,
            monitor: Monitor::default(),
            checkpoints,
            saved,
            before_best: (None, 0),
            stepping: Duration::ZERO,
            untimed_tokens,
            batch: Cell::default(),
            warned_of_drift: false,
            lowest_loss: f64::INFINITY,
            warned_of_divergence: false,
        };
        if !group.is_alone() {
            session.take_from_first()?;
        }
        if !session.is_last() {
            let instructions = instructions(&training.plan.device);
            warn_of_other_instructions(session.state.instructions.as_deref(), instructions);
            session.state.instructions = instructions.map(str::to_owned);
        }
        Ok(session)
    }

    /// Records who trains, if several processes do.
    pub(super) fn record_ranks(&self, records: &mut Records) -> Result<()> {
        let group = &self.training.plan.group;
        if group.is_alone() {
            return Ok(());
        }
        records.write(&json!({"kind": "ranks", "step": self.state.step, "hosts": group.hosts()}))
    }

    /// Adds the sums of every step to those of other processes.
    pub fn sum_across(&mut self, across: Box<SumAcross<'a>>) {
        self.across = across;
    }

    /// The step that training ends with.
    pub fn last_step(&self) -> u64 {
        self.last_step
    }

    /// Whether the last step is done.
    pub fn is_last(&self) -> bool {
        self.state.step >= self.last_step || self.epochs_are_over()
    }

    /// Validates the weights that a fork begins with, before its first step: they compete for
    /// `best`, so that a fork that only loses by its training keeps them. Does nothing in any other
    /// run, and in one that has begun.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_origin(
        &mut self,
        records: &mut Records,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let training = self.training;
        let is_fork = training
            .plan
            .group
            .share(|| Ok(training.origin().is_some()))?;
        if is_fork && self.state.step == 0 {
            self.validate(records, observer)?;
        }
        Ok(())
    }

    /// Whether there is a reason to end, and which.
    pub fn ending(&self) -> Option<Ending> {
        let patience = self.training.plan.config.train.patience;
        if self.is_last() {
            Some(Ending::Done)
        } else if patience > 0 && self.state.stale_validations >= patience {
            Some(Ending::OutOfPatience)
        } else {
            None
        }
    }

    /// Takes the next window of micro-batches and moves the weights once.
    ///
    /// # Errors
    /// A batch cannot be read, or other processes cannot be reached.
    pub fn step(
        &mut self,
        batches: &mut BatchStream<Sharded<T::Source>>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let started = Instant::now();
        let config = &self.training.plan.config;
        let window = next_window::<T>(batches, config.train.accumulate_steps)?;
        let number = self.state.step + 1;
        let first = window
            .iter()
            .position(|placed| placed.batch.is_some())
            .unwrap_or(0);
        let lr = self.schedule.checked_rate(number)?;
        let step_config = StepConfig {
            seed: config.seed,
            step: number,
            lr,
            first,
        };
        let model = self.model.take().context("a step failed before this one")?;
        if let Some(last) = window.last() {
            let epoch_ends = last.ends_epoch();
            self.state.epoch = if epoch_ends {
                last.epoch + 1
            } else {
                last.epoch
            };
            self.state.position = if epoch_ends {
                0
            } else {
                last.position as u64 + 1
            };
        }
        let (window, examples): (Vec<_>, Vec<_>) = window
            .into_iter()
            .map(|placed| (placed.batch, placed.examples))
            .unzip();
        let window: Vec<MicroBatch<T>> = window.into_iter().flatten().collect();
        let shape = |shards: &MicroBatch<T>| {
            BatchSize::of_all(shards.iter().map(|shard| self.task.size(shard))).shape
        };
        if let Some(largest) = window.iter().map(shape).max_by_key(BatchShape::positions) {
            self.note(largest, observer);
        }
        let (optimizer, across) = (&mut self.optimizer, &mut *self.across);
        let (model, record) = step_across(
            self.task,
            model,
            optimizer,
            &window,
            &self.device,
            step_config,
            across,
        )?;
        self.model = Some(model);
        self.state.step = number;
        self.state.tokens += record.num_tokens as u64;
        self.monitor.push(record, examples.concat());
        self.stepping += started.elapsed();
        Ok(())
    }

    /// Reads what the steps left on the device.
    ///
    /// # Errors
    /// More steps in a row were skipped than `train.max_skipped_steps`.
    pub fn check(&mut self) -> Result<()> {
        let started = Instant::now();
        let max_skipped = self.training.plan.config.train.max_skipped_steps;
        let origin = |example| self.task.source().origin(example);
        self.monitor
            .check(&mut self.state, max_skipped, &origin, self.saved.as_deref())?;
        self.stepping += started.elapsed();
        Ok(())
    }

    /// Shows and records the steps since the last report.
    ///
    /// # Errors
    /// As [`Self::check`]; the record cannot be written.
    pub fn report(&mut self, records: &mut Records, observer: &mut dyn Observer) -> Result<()> {
        self.check()?;
        let interval = std::mem::take(&mut self.state.interval);
        let step = self.state.step;
        // The epoch of that step, counted from 1; the state names that of the next.
        let epoch = self.state.epoch + u64::from(self.state.position > 0);
        let lr = self.schedule.learning_rate(step);
        let elapsed = std::mem::take(&mut self.stepping);
        let timed_tokens = interval.tokens - std::mem::take(&mut self.untimed_tokens);
        let group = &self.training.plan.group;
        let times = if group.is_alone() {
            Vec::new()
        } else {
            group.gather(group.take_times())?
        };
        let report = TrainReport {
            step,
            epoch,
            lr,
            interval: &interval,
            elapsed,
            timed_tokens,
            times: &times,
        };
        let record = report.record();
        observer.report(&report, &record);
        self.warn_of_divergence(interval.loss());
        records.write(&record)
    }

    /// Warns once if a loss after the warm-up is above that of a model that has learned nothing,
    /// and is not merely on its way down from there: it has been lower, or is far above.
    fn warn_of_divergence(&mut self, loss: f64) {
        let lowest = self.lowest_loss.min(loss);
        self.lowest_loss = lowest;
        let Some(uniform) = self.task.uniform_loss() else {
            return;
        };
        let warms_up = self.state.step <= self.training.plan.config.train.warmup_steps;
        let has_risen = loss > lowest + RISEN * uniform || loss > FAR * uniform;
        if warms_up
            || self.warned_of_divergence
            || loss <= uniform
            || !has_risen
            || !loss.is_finite()
        {
            return;
        }
        self.warned_of_divergence = true;
        let step = self.state.step;
        tracing::warn!(
            "the loss has diverged: at step {step} it is {loss:.3}, and guessing at random has {uniform:.3}; stop, and \
             start again with a lower `train.lr`, more `train.warmup_steps`, or `train.clip_norm = 1.0`"
        );
    }

    /// Scores the validation set and keeps what the model wrote; returns whether it is the best so
    /// far.
    ///
    /// # Errors
    /// As [`Self::check`]; the loss of the validation is not finite.
    pub fn validate(&mut self, records: &mut Records, observer: &mut dyn Observer) -> Result<bool> {
        let (training, step) = (self.training, self.state.step);
        observer.validating(step);
        self.check()?;
        self.batch.set(None);
        observer.batch(None);
        let model = self
            .model
            .as_ref()
            .context("a step failed before this")?
            .valid();
        let validated = {
            let _text = training
                .text
                .valid
                .as_ref()
                .map(|valid| held_out_span(valid).entered());
            self.task.validate(model)?
        };
        let Some(Validation {
            scores,
            outputs,
            samples,
        }) = validated
        else {
            return Ok(false);
        };
        ensure!(
            scores.loss.is_finite(),
            "the validation loss after step {step} is not finite: the weights are useless, and nothing is saved"
        );
        let path = training.run.validation_path(step);
        if !outputs.is_empty()
            && training.plan.group.is_first()
            && let Err(error) = file::replace(&path, (outputs.join("\n") + "\n").as_bytes())
        {
            tracing::warn!(
                "cannot write `{}`: {error}; training continues without it",
                path.display()
            );
        }
        let record = records.write_scores("valid", "valid", step, &scores)?;
        observer.scores(step, &scores, &record);
        for [source, reference, hypothesis] in &samples {
            tracing::info!(
                "  source      {source}\n  reference   {reference}\n  hypothesis  {hypothesis}"
            );
        }
        // Rank 0 decides what is better than before: on another processor a score may differ in its
        // last digit.
        let decided = training.plan.group.share(|| {
            let improved = self.compare(&scores);
            Ok((improved, serde_json::to_string(&self.state)?))
        })?;
        if !training.plan.group.is_first() {
            self.before_best = (self.state.best, self.state.stale_validations);
            self.state = serde_json::from_str(&decided.1)?;
        }
        Ok(decided.0)
    }

    /// Whether these scores are the best so far; remembers them if so.
    fn compare(&mut self, scores: &Scores) -> bool {
        let train = &self.training.plan.config.train;
        let (score, sign) = match (train.best_metric, &scores.translations) {
            (Some(BestMetric::Bleu), Some(translations)) => (translations.bleu, 1.0),
            (Some(BestMetric::Chrf), Some(translations)) => (translations.chrf, 1.0),
            (Some(BestMetric::Loss) | None, _) | (_, None) => (scores.loss, -1.0),
        };
        let before = (self.state.best, self.state.stale_validations);
        let warms_up = self.state.step <= train.warmup_steps;
        let is_best = self
            .state
            .see_validation(score, |score| score * sign, scores.loss, warms_up);
        if is_best {
            self.before_best = before;
        }
        is_best
    }

    /// The newest batch that the device was given; `None` where it is done with it.
    pub fn batch(&self) -> Option<BatchShape> {
        self.batch.get()
    }

    /// Remembers and tells which batch the device is given.
    fn note(&self, shape: BatchShape, observer: &mut dyn Observer) {
        self.batch.set(Some(shape));
        observer.batch(Some(shape));
    }

    fn epochs_are_over(&self) -> bool {
        self.training
            .plan
            .config
            .train
            .max_epochs
            .is_some_and(|epochs| self.state.epoch >= epochs)
    }
}

/// Takes up the newest whole checkpoint if there is one; returns its state, as JSON, and its path.
fn resume<M: Module>(
    training: &Training,
    checkpoints: &Checkpoints,
    model: &mut M,
    optimizer: &mut Optimizer,
) -> Result<Option<(String, PathBuf)>> {
    checkpoints.tidy(|name| name.starts_with("step-"))?;
    let device = &training.plan.device;
    let Some(checkpoint) = checkpoints.newest()? else {
        if checkpoints.steps()?.is_empty() {
            return Ok(None);
        }
        let root = training.run.root().display();
        let error =
            failed!("no checkpoint of `{root}` is whole, so there is nothing to resume from");
        return Err(with_hint(
            error,
            "restore one, or remove `checkpoints` in it to start again",
        ));
    };
    *model = load_weights(model.clone(), checkpoint.model()?)?;
    let mut moments = checkpoint.optimizer()?;
    optimizer.restore_state(device, |name, shape| moments.take(name, shape))?;
    if training.plan.config.train.ema_decay > 0.0 {
        let mut ema = checkpoint.ema()?;
        optimizer.restore_ema(device, |name, shape| ema.take(name, shape))?;
    }
    checkpoints.recover(&checkpoint.state)?;
    tracing::info!(
        "resuming after step {} from `{}`",
        checkpoint.state.step,
        checkpoint.path.display()
    );
    Ok(Some((
        serde_json::to_string(&checkpoint.state)?,
        checkpoint.path,
    )))
}

/// The places of the next step, with this process's batches: `accumulate_steps` of them, or fewer
/// where the epoch ends.
fn next_window<T: Task>(
    batches: &mut BatchStream<Sharded<T::Source>>,
    accumulate_steps: usize,
) -> Result<Vec<Placed<Option<MicroBatch<T>>>>> {
    let mut window = Vec::with_capacity(accumulate_steps);
    while window.len() < accumulate_steps {
        let batch = batches
            .next_place()
            .context("the stream of batches ended")?
            .map_err(Into::into)?;
        let epoch_ends = batch.ends_epoch();
        window.push(batch);
        if epoch_ends {
            break;
        }
    }
    Ok(window)
}
