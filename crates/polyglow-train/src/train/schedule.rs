//! The learning rate as a pure function of the step.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use polyglow_model::ModelError;
use polyglow_model::registry::{Named, Row, Table};
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

/// The numbers that a schedule computes the learning rate from, apart from the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleSetting {
    /// `train.lr`: the peak, or a factor.
    pub lr: f64,
    /// `train.warmup_steps`.
    pub warmup_steps: u64,
    /// The last step of the training.
    pub last_step: u64,
    /// The width of the model's hidden states.
    pub d_model: usize,
}

/// Computes the learning rate of a step, the first of which is step 1. A rate that is negative or not
/// finite ends the training with an error.
pub type LearningRate = fn(setting: &ScheduleSetting, step: u64) -> f64;

/// A row of the table of schedules.
pub struct ScheduleRow {
    name: &'static str,
    learning_rate: LearningRate,
    depends_on_last_step: bool,
    /// Checks the warm-up that it is given.
    check: fn(&TrainConfig) -> Result<()>,
}

/// The schedules that are built in. To add one, add a row and a function.
const BUILT_IN: [&ScheduleRow; 5] = [
    &ScheduleRow {
        name: "inverse_sqrt",
        learning_rate: inverse_sqrt,
        depends_on_last_step: false,
        check: check_is_there,
    },
    &ScheduleRow {
        name: "constant",
        learning_rate: constant,
        depends_on_last_step: false,
        check: |_| Ok(()),
    },
    &ScheduleRow {
        name: "linear",
        learning_rate: linear,
        depends_on_last_step: true,
        check: check_ends_early,
    },
    &ScheduleRow {
        name: "cosine",
        learning_rate: cosine,
        depends_on_last_step: true,
        check: check_ends_early,
    },
    &ScheduleRow {
        name: "noam",
        learning_rate: noam,
        depends_on_last_step: false,
        check: check_is_there,
    },
];

static TABLE: Table<ScheduleRow> = Table::new("train.schedule", &BUILT_IN);

impl Named for ScheduleRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Row for ScheduleRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

impl ScheduleRow {
    /// Returns whether the rate of every step depends on the number of the last one, so that a run
    /// whose end is moved would have trained with other rates.
    pub fn depends_on_last_step(&self) -> bool {
        self.depends_on_last_step
    }

    /// Checks that the warm-up of a config suits the schedule.
    ///
    /// # Errors
    /// There must be one and is none, or it is longer than the training.
    pub(crate) fn check(&self, config: &TrainConfig) -> Result<()> {
        (self.check)(config)
    }
}

/// Checks that there is a warm-up.
fn check_is_there(config: &TrainConfig) -> Result<()> {
    ensure!(
        config.warmup_steps > 0,
        "`train.warmup_steps = 0`: must be at least 1 for the schedules `inverse_sqrt` and `noam`, \
         whose decay starts from it"
    );
    Ok(())
}

/// Checks that the warm-up is shorter than the training.
fn check_ends_early(config: &TrainConfig) -> Result<()> {
    if let Some(max_steps) = config.max_steps {
        ensure!(
            config.warmup_steps < max_steps,
            "`train.warmup_steps = {}`: must be below `train.max_steps = {max_steps}`, where the \
             schedules `linear` and `cosine` end",
            config.warmup_steps
        );
    }
    Ok(())
}

/// Registers a schedule, which a config chooses by `train.schedule = "NAME"`. The end of a run that
/// uses it cannot be moved, as it may depend on the last step.
///
/// ```
/// use polyglow_train::Config;
/// use polyglow_train::train::register_schedule;
///
/// // Stays at the peak, and falls linearly over the last tenth of the steps.
/// register_schedule("stable-decay", |setting, step| {
///     let left = (setting.last_step + 1).saturating_sub(step) as f64;
///     setting.lr * (left / (setting.last_step as f64 / 10.0)).min(1.0)
/// })?;
/// let text = "data.corpus = 'digits'\ntrain = { max_steps = 9, schedule = 'stable-decay' }";
/// assert_eq!(Config::from_text(text, &[])?.train.schedule.name(), "stable-decay");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The name is no word in lower case, or that of another schedule.
pub fn register_schedule(
    name: &'static str,
    learning_rate: LearningRate,
) -> Result<(), ModelError> {
    TABLE.register(Box::new(ScheduleRow {
        name,
        learning_rate,
        depends_on_last_step: true,
        check: |_| Ok(()),
    }))
}

/// `lr * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)` (Vaswani et al., 2017, section
/// 5.3).
fn noam(setting: &ScheduleSetting, step: u64) -> f64 {
    let step = step as f64;
    let warmup = (setting.warmup_steps as f64).max(1.0);
    setting.lr * (setting.d_model as f64).powf(-0.5) * step.powf(-0.5).min(step * warmup.powf(-1.5))
}

/// Warms up, and stays at `lr`.
fn constant(setting: &ScheduleSetting, step: u64) -> f64 {
    warm_up(setting, step).unwrap_or(setting.lr)
}

/// Warms up, and falls as `lr * sqrt(warmup_steps / step)`, with at least one step of warm-up.
fn inverse_sqrt(setting: &ScheduleSetting, step: u64) -> f64 {
    let warmup = (setting.warmup_steps as f64).max(1.0);
    warm_up(setting, step).unwrap_or_else(|| setting.lr * (warmup / step as f64).sqrt())
}

/// Warms up, and falls in a straight line to 0 one step after the last.
fn linear(setting: &ScheduleSetting, step: u64) -> f64 {
    warm_up(setting, step).unwrap_or_else(|| setting.lr * (1.0 - progress(setting, step)))
}

/// Warms up, and falls as `lr * (1 + cos(π progress)) / 2`, to 0 one step after the last
/// (Loshchilov and Hutter, 2017).
fn cosine(setting: &ScheduleSetting, step: u64) -> f64 {
    warm_up(setting, step).unwrap_or_else(|| {
        setting.lr * 0.5 * (1.0 + (std::f64::consts::PI * progress(setting, step)).cos())
    })
}

/// Returns `lr * step / warmup_steps` up to the end of the warm-up, and `None` from there.
fn warm_up(setting: &ScheduleSetting, step: u64) -> Option<f64> {
    let warmup_steps = setting.warmup_steps as f64;
    let step = step as f64;
    (step < warmup_steps).then(|| setting.lr * step / warmup_steps)
}

/// Returns how far a step is on the way from the end of the warm-up to one step after the last, 0
/// to 1.
fn progress(setting: &ScheduleSetting, step: u64) -> f64 {
    let warmup_steps = setting.warmup_steps as f64;
    let len = (setting.last_step as f64 + 1.0 - warmup_steps).max(1.0);
    ((step as f64 - warmup_steps) / len).clamp(0.0, 1.0)
}

/// A schedule with everything it depends on.
#[derive(Clone, Debug)]
pub struct Schedule {
    kind: ScheduleKind,
    setting: ScheduleSetting,
    own: Option<OwnSchedule>,
}

impl Schedule {
    /// Makes the configured schedule of a training of `last_step` steps, of a model of width
    /// `d_model`.
    pub fn new(config: &TrainConfig, last_step: u64, d_model: usize) -> Self {
        Self {
            kind: config.schedule,
            setting: ScheduleSetting {
                lr: config.lr,
                warmup_steps: config.warmup_steps,
                last_step,
                d_model,
            },
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
        let name = self.own.as_ref().map_or(self.kind.name(), |own| &own.name);
        ensure!(
            lr.is_finite() && lr >= 0.0,
            "the schedule `{name}` gives step {step} the learning rate {lr}"
        );
        Ok(lr)
    }

    /// Returns the learning rate of a step, the first of which is step 1.
    pub fn learning_rate(&self, step: u64) -> f64 {
        let step = step.max(1);
        match &self.own {
            Some(own) => (own.learning_rate)(step),
            None => (self.kind.0.learning_rate)(&self.setting, step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(name: &str) -> Schedule {
        let config = TrainConfig {
            schedule: ScheduleKind::named(name).expect("it is built in"),
            lr: 1.0,
            warmup_steps: 4000,
            ..TrainConfig::default()
        };
        Schedule::new(&config, 100_000, 512)
    }

    #[test]
    fn noam_is_the_papers() {
        let noam = schedule("noam");
        assert!((noam.learning_rate(4000) - 6.98771e-4).abs() < 1e-9);
        assert!((noam.learning_rate(2000) - 6.98771e-4 / 2.0).abs() < 1e-9);
        assert!((noam.learning_rate(16_000) - 6.98771e-4 / 2.0).abs() < 1e-9);
    }

    #[test]
    fn inverse_sqrt_peaks_at_the_end_of_the_warm_up_and_halves_in_four_times_the_steps() {
        let schedule = schedule("inverse_sqrt");
        assert!((schedule.learning_rate(1) - 1.0 / 4000.0).abs() < 1e-12);
        assert!((schedule.learning_rate(4000) - 1.0).abs() < 1e-12);
        assert!((schedule.learning_rate(16_000) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn linear_and_cosine_fall_from_the_peak_towards_zero_at_the_end() {
        for name in ["linear", "cosine"] {
            let schedule = schedule(name);
            assert!((schedule.learning_rate(4000) - 1.0).abs() < 1e-12);
            assert!((schedule.learning_rate(52_000) - 0.5).abs() < 1e-4);
            assert!(schedule.learning_rate(100_000) < 2e-5);
            assert!(schedule.learning_rate(99_999) > schedule.learning_rate(100_000));
        }
    }

    #[test]
    fn constant_stays_after_the_warm_up() {
        let schedule = schedule("constant");
        assert!((schedule.learning_rate(1000) - 0.25).abs() < 1e-12);
        assert!((schedule.learning_rate(99_999) - 1.0).abs() < 1e-12);
    }
}
