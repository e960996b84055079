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
        // The epoch of that step, counted from 1; the state names that of the next micro-batch,
        // which at the end of an epoch is already the following one.
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

    /// Warns once that the loss of a report has diverged.
    fn warn_of_divergence(&mut self, loss: f64) {
        let Some(uniform) = self.task.uniform_loss() else {
            return;
        };
        let step = self.state.step;
        let warms_up = step <= self.training.plan.config.train.warmup_steps;
        if self.divergence.begins(loss, uniform, warms_up) {
            tracing::warn!(
                "the loss has diverged: at step {step} it is {loss:.3}, and guessing at random has {uniform:.3}; stop, and \
                 start again with a lower `train.lr`, more `train.warmup_steps`, or `train.clip_norm = 1.0`"
            );
        }
    }
}
