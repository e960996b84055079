//! TEXT -> STEPS -> CHECKPOINTS: the training loop and everything only it needs.

mod capacity;
mod disk;
mod fork;
mod memory;
mod monitor;
mod optimizer;
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
pub use optimizer::{Optimizer, ParameterStep, UpdateRule, rule};
pub use prepare::{Text, Training, check_one_config};
pub use schedule::Schedule;
pub use session::Session;
pub use step::{Observe, Phase, StepConfig, StepRecord, StepValues};
pub use stepper::{Stepper, StepperParts};
pub use stop::Stop;
pub use sums::{GradientSum, SumAcross, WindowSums, alone, bucket_len};
pub use trial::{TrialReport, try_step};

use crate::config::TrainConfig;
use crate::observer::{Observer, Wish};
use crate::plan::Plan;
use crate::run::TrainState;
use crate::run::records::Records;
use crate::tasks::Task;

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At `max_steps` or `max_epochs`.
    Done,
    /// `patience` validations brought nothing better.
    OutOfPatience,
    /// It was asked to stop; preparing the same training again resumes it.
    Stopped,
}

/// Trains from the newest checkpoint, or from the weights of `model` where there is none, to the
/// end. `model` is on the plan's training device.
///
/// What cannot be written is tried again at the next opportunity, and training continues.
///
/// # Errors
/// What is wrong with the data; there is no room on the disk for a checkpoint; more steps in a row
/// are not finite than `train.max_skipped_steps`; the device fails, as when its memory is full; the
/// last checkpoint or record cannot be written; the observer wants the end at once.
pub fn fit<T: Task>(
    training: &Training,
    task: &T,
    model: T::Model,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Ending, TrainState)> {
    let group = &training.plan.group;
    group.share(|| disk::ensure_room(training, &model))?;
    let mut session = Session::start(training, task, model)?;
    let start = Position {
        epoch: session.state.epoch,
        position: session.state.position as usize,
    };
    let window = training.plan.config.train.accumulate_steps;
    let share = Share {
        rank: group.rank(),
        size: group.size(),
        window,
    };
    let mut batches = BatchStream::start_share(training.plan.sharded(task.source()), start, share)
        .map_err(Into::into)?;
    guard(|| session.warm_up(stop, observer))
        .unwrap_or_else(|panic| Err(broken(&session, training, &panic)))?;
    let tensorboard = training.plan.config.train.tensorboard;
    let mut records = if group.is_first() {
        Records::open(&training.run, session.state.step, tensorboard)?
    } else {
        Records::nowhere()
    };
    session.record_ranks(&mut records)?;
    group.wait_at_most(Duration::from_secs(training.plan.config.train.rank_timeout));
    observer.begin(&training.run, session.state.step, session.last_step())?;
    let steps = Loop {
        plan: &training.plan,
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
    // After the end of the steps, whatever it was: what the disk refused before may go through now.
    let recorded = records.flush();
    let ending = ending?;
    recorded?;
    Ok((ending, session.state))
}

/// Everything that is used from step to step.
struct Loop<'r, 'a, T: Task> {
    plan: &'r Plan,
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
            self.session.step(self.batches, self.observer)?;
            self.observer.step(self.session.state.step);
            self.handle_wish()?;
            if self.is_due(config.log_every) {
                self.session.report(self.records, self.observer)?;
            }
            let improved = self.is_due(config.validate_every)
                && self.session.validate(self.records, self.observer)?;
            self.handle_wish()?;
            // Whichever rank is asked to stop, all end after the same step.
            let asked = self.plan.group.any(self.stop.asked())?;
            let ends = asked || self.session.ending().is_some();
            if self.is_due(config.save_every) || improved || ends {
                self.records.settle();
                self.save(ends)?;
            }
            if asked {
                return Ok(Ending::Stopped);
            }
        }
    }

    /// Returns whether something that is done every so many steps, and after the last one, is due.
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

    /// Asks for the end of the training, or fails, if the observer wants that.
    fn handle_wish(&self) -> Result<()> {
        match self.observer.wish() {
            Wish::GoOn => Ok(()),
            Wish::Stop => {
                self.stop.ask();
                Ok(())
            }
            Wish::Abort => {
                let error =
                    failed!("ended at once, as asked, without a checkpoint of the last steps");
                let error = error.with_kind(ErrorKind::Aborted);
                Err(with_hint(error, self.session.what_is_left()))
            }
        }
    }
}

/// The error of a device that failed in the middle of something.
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

/// The step that training ends with: `max_steps`, or where `max_epochs` epochs of `epoch_len`
/// batches end if that is earlier. With fractional corpus weights epochs differ a little in length,
/// and this is an estimate.
pub fn last_step(config: &TrainConfig, epoch_len: usize) -> u64 {
    let steps_per_epoch = epoch_len.div_ceil(config.accumulate_steps) as u64;
    let epochs = config
        .max_epochs
        .map_or(u64::MAX, |epochs| epochs.saturating_mul(steps_per_epoch));
    config.max_steps.unwrap_or(u64::MAX).min(epochs)
}
