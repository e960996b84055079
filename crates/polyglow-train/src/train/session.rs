//! A training under way: the model, the optimizer, and where it stands.

mod divergence;
mod improvement;
mod report;
mod save;
mod validate;
mod warm_up;
mod window;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use polyglow_data::error::DataError;
use polyglow_data::prefetch::BatchStream;
use polyglow_data::sources::{BatchSource, Sharded};
use polyglow_predict::device::instructions;
use polyglow_predict::error::{Result, failed, with_hint};
use serde_json::json;

use self::divergence::Divergence;
use self::window::Window;
use super::monitor::Monitor;
use super::optimizer::{Optimizer, freeze};
use super::parts::OwnParts;
use super::resume::warn_of_other_instructions;
use super::schedule::Schedule;
use super::step::StepArgs;
use super::stepper::{Stepper, StepperParts};
use super::sums::{AllReduce, all_reduce_among};
use super::{Ending, Training, last_step};
use crate::observer::Observer;
use crate::run::records::Records;
use crate::run::{Best, Checkpoints, Program, TrainState};
use crate::tasks::Task;
use crate::workload::BatchShape;

/// A training under way: it makes steps, validates, reports and saves, each when the loop calls it.
pub struct Session<'a, T: Task> {
    /// The state of the training after the last step.
    pub state: TrainState,
    training: &'a Training,
    task: &'a T,
    stepper: Stepper<'a, T>,
    schedule: Schedule,
    last_step: u64,
    monitor: Monitor,
    checkpoints: Checkpoints,
    /// The newest whole checkpoint.
    saved: Option<PathBuf>,
    /// The state to return to if the checkpoint of the newest best validation cannot be written.
    before_best: BeforeBest,
    /// Time that steps have taken since the last report.
    stepping: Duration,
    /// Tokens of the interval that an earlier process saw, in time that this one does not know.
    untimed_tokens: u64,
    /// The newest batch that the device was given, for the message should it fail.
    batch: Cell<Option<BatchShape>>,
    /// Whether there was a warning that the ranks do not compute the same bits.
    warned_of_drift: bool,
    /// Watches the losses of the reports.
    divergence: Divergence,
}

/// The part of a state about validations before the one that is the best now.
#[derive(Clone, Copy, Debug, Default)]
struct BeforeBest {
    best: Option<Best>,
    stale_validations: u64,
}

impl BeforeBest {
    fn from_state(state: &TrainState) -> Self {
        Self {
            best: state.best,
            stale_validations: state.stale_validations,
        }
    }
}

impl<'a, T: Task> Session<'a, T> {
    /// Continues from the newest whole checkpoint of the run, or starts with the weights of
    /// `model`.
    ///
    /// # Errors
    /// There are checkpoints and none is whole; one does not fit the configuration; the training
    /// text yields no batch.
    pub fn start(training: &'a Training, task: &'a T, model: T::Model) -> Result<Self> {
        let config = &training.plan.config;
        let group = &training.plan.group;
        let checkpoints = training.run.checkpoints(config.train.keep_last);
        let mut stepper = new_stepper(training, task, model)?;
        let parts = OwnParts {
            optimizer: training.rule.name.clone(),
            schedule: training.schedule.as_ref().map(|own| own.name.clone()),
            filters: training.plan.own_filters(),
            ..OwnParts::for_task(task)
        };
        // Only rank 0 reads, so that all agree which checkpoint is the newest.
        let resumed = group.share(|| resume(training, &parts, &checkpoints, &mut stepper))?;
        let mut state = TrainState::default();
        let mut saved = None;
        if let Some((restored, path)) = resumed {
            state = serde_json::from_str(&restored)?;
            saved = Some(path);
        }
        state.parts = Some(parts);
        state.program = Some(Program::this());
        state.text = Some(training.hashes.clone());
        let epoch_len = task.source().plan(0).map_err(Into::into)?.len();
        check_changes(&**task.source()).map_err(Into::into)?;
        let last_step = last_step(&config.train, epoch_len);
        let schedule = Schedule::new(&config.train, last_step, training.plan.d_model)
            .replaced_by(training.schedule.clone());
        let untimed_tokens = state.interval.tokens;
        let divergence = Divergence::new(&state);
        let mut session = Self {
            state,
            training,
            task,
            stepper,
            schedule,
            last_step,
            monitor: Monitor::default(),
            checkpoints,
            saved,
            before_best: BeforeBest::default(),
            stepping: Duration::ZERO,
            untimed_tokens,
            batch: Cell::default(),
            warned_of_drift: false,
            divergence,
        };
        if !group.is_alone() {
            // The others have not read the checkpoint.
            session.take_from_first()?;
        }
        // A training that is over computes no more steps, on whatever instructions.
        if !session.is_last() {
            let instructions = instructions(&training.plan.device);
            warn_of_other_instructions(session.state.instructions.as_deref(), instructions);
            session.state.instructions = instructions.map(str::to_owned);
        }
        Ok(session)
    }

    /// Records the hosts of the ranks, if there are several.
    pub(super) fn record_ranks(&self, records: &mut Records) -> Result<()> {
        let group = &self.training.plan.group;
        if group.is_alone() {
            return Ok(());
        }
        records.write(&json!({"kind": "ranks", "step": self.state.step, "hosts": group.hosts()}))
    }

    /// Makes every step a part of one over several processes, whose sums `across` adds.
    pub fn set_all_reduce(&mut self, all_reduce: Box<AllReduce<'a>>) {
        self.stepper.set_all_reduce(all_reduce);
    }

    /// Returns the step that training ends with.
    pub fn last_step(&self) -> u64 {
        self.last_step
    }

    /// Returns whether the last step is done.
    pub fn is_last(&self) -> bool {
        self.state.step >= self.last_step || self.epochs_are_over()
    }

    /// Returns the reason to end after this step; `None` if training is to continue.
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

    /// Takes the next window of micro-batches and updates the weights once. Returns whether the corpora
    /// that are trained on change after this step, so that the next one is of another stream.
    ///
    /// # Errors
    /// A batch cannot be read, or other processes cannot be reached.
    pub fn step(
        &mut self,
        batches: &mut BatchStream<Sharded<T::Source>>,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let started = Instant::now();
        let len = self.training.plan.config.train.accumulate_steps;
        let window = Window::take_from(batches, len)?;
        let step = self.state.step + 1;
        let lr = self.schedule.checked_rate(step)?;
        self.state.epoch = window.next.epoch;
        self.state.position = window.next.position as u64;
        if let Some(largest) = window.largest(self.task) {
            self.note(largest, observer);
        }
        let args = StepArgs {
            step,
            lr,
            first_micro_batch: window.first,
        };
        let record = self.stepper.step(&window.micro_batches, args)?;
        // Only now: a step that fails has not been made.
        self.state.step = step;
        self.state.tokens += record.num_tokens as u64;
        self.monitor.push(record, window.examples);
        self.stepping += started.elapsed();
        let is_change = self.task.source().changes().contains(&step);
        // An epoch ends with its corpora.
        if is_change && self.state.position > 0 {
            self.state.epoch += 1;
            self.state.position = 0;
        }
        Ok(is_change)
    }

    /// The newest batch that the device was given; `None` where it is done with it.
    pub fn batch(&self) -> Option<BatchShape> {
        self.batch.get()
    }

    /// Remembers which batch the device is given, and passes it to the observer.
    fn note(&self, shape: BatchShape, observer: &mut dyn Observer) {
        self.batch.set(Some(shape));
        observer.batch(Some(shape));
    }

    fn epochs_are_over(&self) -> bool {
        let max_epochs = self.training.plan.config.train.max_epochs;
        max_epochs.is_some_and(|epochs| self.state.epoch >= epochs)
    }
}

/// Makes sure that there is something to train on after each change of the corpora.
///
/// # Errors
/// There is not, or an epoch cannot be planned.
fn check_changes<S: BatchSource>(source: &S) -> Result<(), S::Error> {
    for step in source.changes() {
        if source.plan_in(0, step)?.is_empty() {
            return Err(DataError::NoBatch.into());
        }
    }
    Ok(())
}

/// Makes the stepper of a training before its first step, with the training's own update rule, and
/// with sums over all ranks.
fn new_stepper<'a, T: Task>(
    training: &'a Training,
    task: &'a T,
    model: T::Model,
) -> Result<Stepper<'a, T>> {
    let train = &training.plan.config.train;
    let device = training.plan.training_device()?;
    let model = freeze(model, &train.freeze)?;
    let optimizer = Optimizer::with_rule((training.rule.make)(train), train, &model);
    let mut stepper = Stepper::from_parts(StepperParts {
        task,
        model,
        optimizer,
        device,
        seed: training.plan.config.seed,
    });
    let group = &*training.plan.group;
    if !group.is_alone() {
        let precision = train.exchange_precision;
        stepper.set_all_reduce(Box::new(move |sums| {
            all_reduce_among(group, precision, sums)
        }));
    }
    Ok(stepper)
}

/// Continues from the newest whole checkpoint if there is one, which was trained with the same
/// parts; returns its state, as JSON, and its path.
fn resume<T: Task>(
    training: &Training,
    parts: &OwnParts,
    checkpoints: &Checkpoints,
    stepper: &mut Stepper<'_, T>,
) -> Result<Option<(String, PathBuf)>> {
    checkpoints.tidy(|name| name.starts_with("step-"))?;
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
    // That of step 0 was not trained: it is the beginning of a fork.
    if let Some(trained) = &checkpoint.state.parts
        && checkpoint.state.step > 0
    {
        trained.check_same(parts)?;
    }
    stepper.restore_model(checkpoint.model()?)?;
    stepper.restore_state(checkpoint.optimizer()?)?;
    if training.plan.config.train.ema_decay > 0.0 {
        stepper.restore_ema(checkpoint.ema()?)?;
    }
    checkpoints.recover(&checkpoint.state)?;
    tracing::info!(
        "resuming after step {} from `{}`",
        checkpoint.state.step,
        checkpoint.path.display()
    );
    let state = serde_json::to_string(&checkpoint.state)?;
    Ok(Some((state, checkpoint.path)))
}
