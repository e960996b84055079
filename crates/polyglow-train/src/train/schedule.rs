//! The learning rate as a pure function of the step.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use polyglow_predict::error::{Result, ensure};

use crate::config::{ScheduleKind, TrainConfig};

/// A schedule of the caller's own, in place of `train.schedule`.
#[derive(Clone)]
pub(crate) struct OwnSchedule {
    /// The name under which a run keeps it.
    pub(crate) name: String,
    /// The learning rate of a step, the first of which is step 1.
    pub(crate) learning_rate: Arc<dyn Fn(u64) -> f64 + Send + Sync>,
}

impl Debug for OwnSchedule {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OwnSchedule")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A schedule with everything it depends on.
#[derive(Clone, Debug)]
pub struct Schedule {
    kind: ScheduleKind,
    lr: f64,
    warmup_steps: f64,
    last_step: f64,
    d_model: f64,
    own: Option<OwnSchedule>,
}

impl Schedule {
    /// Makes the configured schedule of a training of `last_step` steps, of a model of width
    /// `d_model`.
    pub fn new(config: &TrainConfig, last_step: u64, d_model: usize) -> Self {
        Self {
            kind: config.schedule,
            lr: config.lr,
            warmup_steps: config.warmup_steps as f64,
            last_step: last_step as f64,
            d_model: d_model as f64,
            own: None,
        }
    }

    /// Replaces the configured schedule, where the caller has one.
    pub(super) fn replaced_by(self, own: Option<OwnSchedule>) -> Self {
        Self { own, ..self }
    }

    /// Returns the learning rate of a step as [`Self::learning_rate`] does.
    ///
    /// # Errors
    /// A schedule of the caller's own gives a number that is negative or not finite.
    pub(super) fn checked_rate(&self, step: u64) -> Result<f64> {
        let lr = self.learning_rate(step);
        if let Some(own) = &self.own {
            ensure!(
                lr.is_finite() && lr >= 0.0,
                "the schedule `{}` gives step {step} the learning rate {lr}",
                own.name
            );
        }
        Ok(lr)
    }

    /// Returns the learning rate of a step, the first of which is step 1.
    ///
    /// - `noam`: `lr * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)` (Vaswani et al.,
    ///   2017, section 5.3)
    /// - all others: `lr * step / warmup_steps` up to the end of the warm-up, and from there
    ///   - `constant`: `lr`
    ///   - `inverse_sqrt`: `lr * sqrt(warmup_steps / step)`, with at least one step of warm-up
    ///   - `linear`: down in a straight line to 0 one step after the last
    ///   - `cosine`: `lr * (1 + cos(π progress)) / 2`, with the progress from the end of the
    ///     warm-up to one step after the last
    pub fn learning_rate(&self, step: u64) -> f64 {
        if let Some(own) = &self.own {
            return (own.learning_rate)(step.max(1));
        }
        let step = step.max(1) as f64;
        if self.kind == ScheduleKind::Noam {
            let warmup = self.warmup_steps.max(1.0);
            return self.lr
                * self.d_model.powf(-0.5)
                * step.powf(-0.5).min(step * warmup.powf(-1.5));
        }
        if step < self.warmup_steps {
            return self.lr * step / self.warmup_steps;
        }
        let progress =
            (step - self.warmup_steps) / (self.last_step + 1.0 - self.warmup_steps).max(1.0);
        let progress = progress.clamp(0.0, 1.0);
        match self.kind {
            ScheduleKind::Constant | ScheduleKind::Noam => self.lr,
            ScheduleKind::InverseSqrt => self.lr * (self.warmup_steps.max(1.0) / step).sqrt(),
            ScheduleKind::Linear => self.lr * (1.0 - progress),
            ScheduleKind::Cosine => self.lr * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind) -> Schedule {
        let config = TrainConfig {
            schedule: kind,
            lr: 1.0,
            warmup_steps: 4000,
            ..TrainConfig::default()
        };
        Schedule::new(&config, 100_000, 512)
    }

    #[test]
    fn noam_is_the_papers() {
        let noam = schedule(ScheduleKind::Noam);
        assert!((noam.learning_rate(4000) - 6.98771e-4).abs() < 1e-9);
        assert!((noam.learning_rate(2000) - 6.98771e-4 / 2.0).abs() < 1e-9);
        assert!((noam.learning_rate(16_000) - 6.98771e-4 / 2.0).abs() < 1e-9);
    }

    #[test]
    fn inverse_sqrt_peaks_at_the_end_of_the_warm_up_and_halves_in_four_times_the_steps() {
        let schedule = schedule(ScheduleKind::InverseSqrt);
        assert!((schedule.learning_rate(1) - 1.0 / 4000.0).abs() < 1e-12);
        assert!((schedule.learning_rate(4000) - 1.0).abs() < 1e-12);
        assert!((schedule.learning_rate(16_000) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn linear_and_cosine_fall_from_the_peak_towards_zero_at_the_end() {
        for kind in [ScheduleKind::Linear, ScheduleKind::Cosine] {
            let schedule = schedule(kind);
            assert!((schedule.learning_rate(4000) - 1.0).abs() < 1e-12);
            assert!((schedule.learning_rate(52_000) - 0.5).abs() < 1e-4);
            assert!(schedule.learning_rate(100_000) < 2e-5);
            assert!(schedule.learning_rate(99_999) > schedule.learning_rate(100_000));
        }
    }

    #[test]
    fn constant_stays_after_the_warm_up() {
        let schedule = schedule(ScheduleKind::Constant);
        assert!((schedule.learning_rate(1000) - 0.25).abs() < 1e-12);
        assert!((schedule.learning_rate(99_999) - 1.0).abs() < 1e-12);
    }
}
