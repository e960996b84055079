//! Reports on the steps of a training.

use std::mem::take;
use std::time::Instant;

use polyglow_data::sources::BatchSource;
use polyglow_predict::error::Result;

use super::Session;
use crate::observer::Observer;
use crate::run::records::Records;
use crate::tasks::Task;
use crate::train::TrainReport;

/// A loss has risen if it is above the lowest by this part of the loss of a model that has learned
/// nothing.
const RISEN: f64 = 0.1;
/// No model begins with a loss that is so many times that of a model that has learned nothing.
const FAR: f64 = 1.5;

impl<T: Task> Session<'_, T> {
    /// Reads the results of the steps since the last check from the device.
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
        let interval = take(&mut self.state.interval);
        let step = self.state.step;
        // The epoch of that step, counted from 1; the state names that of the next.
        let epoch = self.state.epoch + u64::from(self.state.position > 0);
        let lr = self.schedule.learning_rate(step);
        let elapsed = take(&mut self.stepping);
        let timed_tokens = interval.tokens - take(&mut self.untimed_tokens);
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
}
