//! TEXT -> STEPS -> CHECKPOINTS: the training loop and everything only it needs.

mod capacity;
mod disk;
mod fork;
mod memory;
mod monitor;
mod optimizer;
mod parts;
mod prepare;
mod resume;
mod schedule;
mod session;
mod step;
mod stepper;
mod stop;
mod sums;
mod trial;

use std::time::Duration;

use polyglow_data::prefetch::{BatchStream, Position, Share};
use polyglow_data::sources::Sharded;
use polyglow_predict::device::guard;
use polyglow_predict::error::{ErrorKind, Result, TrainError, failed, with_hint};

pub use capacity::find_max_tokens;
pub use disk::{Bytes, DiskEstimate};
pub use fork::Start;
pub use memory::{MemoryEstimate, activations, available_memory, peak_memory};
pub use monitor::{Interval, TrainReport};
pub use optimizer::{
    MakeUpdateRule, Optimizer, OptimizerRow, ParameterStep, UpdateRule, register_optimizer, rule,
};
pub use parts::OwnParts;
pub(crate) use parts::short_type_name;
pub use prepare::{Text, Training, check_one_config};
pub use schedule::{LearningRate, Schedule, ScheduleRow, ScheduleSetting, register_schedule};
pub use session::Session;
pub use step::{OnPhase, Phase, StepArgs, StepRecord, StepValues};
pub use stepper::{Stepper, StepperParts};
pub use stop::Stop;
pub use sums::{AllReduce, GradientSum, WindowSums, bucket_len, single_process};
pub use trial::{TrialReport, try_step};

use crate::config::TrainConfig;
use crate::observer::{Observer, StopRequest};
use crate::plan::Plan;
use crate::run::TrainState;
use crate::run::records::Records;
use crate::tasks::Task;

/// The way in which a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At `max_steps` or `max_epochs`.
    Done,
    /// `patience` validations in a row brought neither a better score nor a lower loss.
    OutOfPatience,
    /// On request, with a checkpoint; preparing the same training again resumes it.
    Stopped,
}

/// Trains from the newest checkpoint, or from the weights of `model` where there is none, to the
/// end, and returns why it ended and the state after the last step. `model` is on the plan's
/// training device. A request in `stop` ends the training after the step in progress.
///
/// A checkpoint or record that cannot be written is tried again at the next opportunity, and
/// training continues.
///
/// # Errors
/// The data cannot be read; there is no room on the disk for a checkpoint; more steps in a row are
/// not finite than `train.max_skipped_steps`; the device fails, as when its memory is full; the
/// last checkpoint or record cannot be written; the observer aborts the training.
pub fn fit<T: Task>(
    training: &Training,
    task: &T,
    model: T::Model,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Ending, TrainState)> {
    let plan = &training.plan;
    let group = &plan.group;
    // Only rank 0 writes checkpoints, so only its disk counts.
    group.share(|| disk::ensure_room(training, &model))?;
    let mut session = Session::start(training, task, model)?;
    // Begins to read at once, so that the first batches are ready when the device is.
    let mut batches = start_batches(plan, task, &session.state)?;
    guard(|| session.warm_up(stop, observer))
        .unwrap_or_else(|panic| Err(broken(&session, training, &panic)))?;
    let mut records = if group.is_first() {
        Records::open(
            &training.run,
            session.state.step,
            plan.config.train.tensorboard,
        )?
    } else {
        Records::nowhere()
    };
    session.record_ranks(&mut records)?;
    // Only from here on do all ranks take about the same time from one exchange to the next: until
    // now one of them may have compiled kernels, or read a corpus, for long.
    group.wait_at_most(Duration::from_secs(plan.config.train.rank_timeout));
    observer.begin(&training.run, session.state.step, session.last_step())?;
    let steps = Loop {
        plan,
        task,
        session: &mut session,
        batches: &mut batches,
        records: &mut records,
        stop,
        observer,
    };
    let ending =
        guard(|| steps.run()).unwrap_or_else(|panic| Err(broken(&session, training, &panic)));
    observer.batch(None);
    observer.end();
    // Also after an error: what the disk refused before may go through now. The error of the steps
    // is the one that the caller gets.
    let recorded = records.flush();
    let ending = ending?;
    recorded?;
    Ok((ending, session.state))
}

/// Starts to read this process's share of the batches, where `state` left off.
fn start_batches<T: Task>(
    plan: &Plan,
    task: &T,
    state: &TrainState,
) -> Result<BatchStream<Sharded<T::Source>>> {
    let start = Position {
        epoch: state.epoch,
        position: state.position as usize,
    };
    let share = Share {
        rank: plan.group.rank(),
        size: plan.group.size(),
        window: plan.config.train.accumulate_steps,
    };
    let source = plan.sharded(task.source());
    BatchStream::start_share(source, start, share, state.step).map_err(Into::into)
}

/// The training loop, with everything that it uses from step to step.
struct Loop<'r, 'a, T: Task> {
    plan: &'r Plan,
    task: &'r T,
    session: &'r mut Session<'a, T>,
    batches: &'r mut BatchStream<Sharded<T::Source>>,
    records: &'r mut Records,
    stop: &'r Stop,
    observer: &'r mut dyn Observer,
}

impl<T: Task> Loop<'_, '_, T> {
    /// Makes step after step until there is a reason to end.
    fn run(mut self) -> Result<Ending> {
        let config = &self.plan.config.train;
        self.session.validate_origin(self.records, self.observer)?;
        loop {
            if let Some(ending) = self.session.ending() {
                return Ok(ending);
            }
            if self.session.step(self.batches, self.observer)? {
                *self.batches = start_batches(self.plan, self.task, &self.session.state)?;
            }
            self.observer.step(self.session.state.step);
            self.handle_stop_request()?;
            if self.is_due(config.log_every) {
                self.session.report(self.records, self.observer)?;
            }
            // Before the save, so that a checkpoint knows its score, and the best one is kept.
            let improved = self.is_due(config.validate_every)
                && self.session.validate(self.records, self.observer)?;
            // Again, since a validation may take long.
            self.handle_stop_request()?;
            // All ranks end after the same step, whichever of them has the request; otherwise the
            // others would wait for it in their next exchange.
            let stops = self.plan.group.any(self.stop.is_requested())?;
            let ends = stops || self.session.ending().is_some();
            if self.is_due(config.save_every) || improved || ends {
                // Records first: a run that resumes from this checkpoint continues after them.
                self.records.settle();
                self.save(ends)?;
            }
            if stops {
                return Ok(Ending::Stopped);
            }
        }
    }

    /// Returns whether it is time for something that is done every `every` steps, and after the
    /// last one.
    fn is_due(&self, every: u64) -> bool {
        self.session.state.step.is_multiple_of(every) || self.session.is_last()
    }

    /// Writes a checkpoint. Where that is not possible, training continues unless this is its end.
    fn save(&mut self, ends: bool) -> Result<()> {
        let content = self.session.content()?;
        match self.session.save(&content) {
            Err(error) if !ends => {
                tracing::warn!("{error}; training continues, and the next save tries again");
                Ok(())
            }
            result => result,
        }
    }

    /// Does what the observer requests: continues, requests a stop, or fails to end at once.
    fn handle_stop_request(&self) -> Result<()> {
        match self.observer.stop_request() {
            StopRequest::None => Ok(()),
            StopRequest::Stop => {
                self.stop.request();
                Ok(())
            }
            StopRequest::Abort => {
                let error =
                    failed!("ended at once, as asked, without a checkpoint of the last steps");
                let error = error.with_kind(ErrorKind::Aborted);
                Err(with_hint(error, self.session.what_is_left()))
            }
        }
    }
}

/// Makes the error of a device that has panicked: it names the step, the batch and what to try.
fn broken<T: Task>(
    session: &Session<'_, T>,
    training: &Training,
    panic: &TrainError,
) -> TrainError {
    let batch = session
        .batch()
        .map(|batch| format!("; the batch: {batch}"))
        .unwrap_or_default();
    let device = &training.plan.device;
    let step = session.state.step;
    let error = failed!("training failed on {device:?} after step {step}: {panic}{batch}")
        .with_kind(ErrorKind::Device);
    let advice =
        "if the device ran out of memory, lower `train.max_tokens`; if not, please report this";
    with_hint(error, format!("{advice}; {}", session.what_is_left()))
}

/// Returns the step that training ends with: `max_steps`, or the end of `max_epochs` epochs of
/// `epoch_len` batches if that is earlier. With fractional corpus weights epochs differ a little in
/// length, and this is an estimate.
pub fn last_step(config: &TrainConfig, epoch_len: usize) -> u64 {
    let steps_per_epoch = epoch_len.div_ceil(config.accumulate_steps) as u64;
    let end_of_epochs = config
        .max_epochs
        .map_or(u64::MAX, |epochs| epochs.saturating_mul(steps_per_epoch));
    config.max_steps.unwrap_or(u64::MAX).min(end_of_epochs)
}
