//! The time that a training takes on this machine, from steps that were timed.

use serde::Serialize;

/// A step that was timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimedStep {
    /// Floating-point operations of its forward passes.
    pub(crate) flops: f64,
    /// Its target tokens, without padding.
    pub(crate) tokens: usize,
    /// The time that it took.
    pub(crate) seconds: f64,
}

/// Seconds of a step as a line over its operations: what every step takes, and what each operation
/// adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pace {
    /// Seconds that a step takes whatever its batch: the update, and starting the kernels.
    pub(crate) per_step: f64,
    /// Seconds for each operation of the forward passes; the backward passes are in it.
    pub(crate) per_flop: f64,
}

impl Pace {
    /// Fits a line through steps of several sizes, by least squares. A few noisy steps may give a
    /// line that falls, or one that starts below 0: then the slope is 0, or the line goes through
    /// 0.
    pub(crate) fn of(steps: &[TimedStep]) -> Self {
        let count = steps.len().max(1) as f64;
        let flops = steps.iter().map(|step| step.flops).sum::<f64>() / count;
        let seconds = steps.iter().map(|step| step.seconds).sum::<f64>() / count;
        let spread: f64 = steps.iter().map(|step| (step.flops - flops).powi(2)).sum();
        let both: f64 = steps
            .iter()
            .map(|step| (step.flops - flops) * (step.seconds - seconds))
            .sum();
        let slope = if spread > 0.0 {
            both / spread
        } else {
            f64::INFINITY
        };
        let most = seconds / flops.max(1.0);
        let per_flop = slope.clamp(0.0, most);
        Self {
            per_step: seconds - per_flop * flops,
            per_flop,
        }
    }

    /// Predicts the seconds of a step from the operations of its forward passes.
    pub(crate) fn seconds(&self, flops: f64) -> f64 {
        self.per_step + self.per_flop * flops
    }
}

/// The prediction of how long a training takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct TimeEstimate {
    /// Steps that were timed, after a warm-up.
    pub(crate) timed_steps: usize,
    /// The line through them.
    pub(crate) pace: Pace,
    /// Seconds of a step, the mean over the batches of an epoch.
    pub(crate) step_seconds: f64,
    /// Target tokens per second, without padding, while it makes steps.
    pub(crate) target_tokens_per_second: f64,
    /// Steps, if patience does not end it earlier.
    pub(crate) steps: u64,
    /// Seconds of a validation; 0 without a validation set.
    pub(crate) validation_seconds: f64,
    /// Validations.
    pub(crate) validations: u64,
    /// Steps and validations together.
    pub(crate) total_seconds: f64,
}

/// The steps of a training, and the work of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Operations of the forward passes of a step, the mean over an epoch.
    pub(crate) step_flops: f64,
    /// Steps.
    pub(crate) steps: u64,
    /// Steps between validations.
    pub(crate) validate_every: u64,
}

impl TimeEstimate {
    /// Predicts the time from steps that were timed and the seconds of a validation.
    pub(crate) fn new(
        timed: &[TimedStep],
        validation_seconds: Option<f64>,
        work: Workload,
    ) -> Self {
        let pace = Pace::of(timed);
        let Workload {
            step_flops,
            steps,
            validate_every,
        } = work;
        let tokens: usize = timed.iter().map(|step| step.tokens).sum();
        let seconds: f64 = timed.iter().map(|step| step.seconds).sum();
        let step_seconds = pace.seconds(step_flops);
        let validations = if validation_seconds.is_some() {
            steps.div_ceil(validate_every)
        } else {
            0
        };
        let validation_seconds = validation_seconds.unwrap_or(0.0);
        Self {
            timed_steps: timed.len(),
            pace,
            step_seconds,
            target_tokens_per_second: tokens as f64 / seconds.max(f64::MIN_POSITIVE),
            steps,
            validation_seconds,
            validations,
            total_seconds: steps as f64 * step_seconds + validations as f64 * validation_seconds,
        }
    }
}

/// Formats seconds for people: `40 s`, `12 min`, `3.5 h`, `2.1 days`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..9.5 => format!("{seconds:.1} s"),
        ..100.0 => format!("{seconds:.0} s"),
        ..600.0 => format!("{:.1} min", seconds / 60.0),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(of: &[(f64, f64)]) -> Vec<TimedStep> {
        of.iter()
            .map(|&(flops, seconds)| TimedStep {
                flops,
                tokens: 100,
                seconds,
            })
            .collect()
    }

    #[test]
    fn a_line_goes_through_what_was_timed() {
        // A tenth of a second, and one for each billion of operations.
        let pace = Pace::of(&steps(&[(1e9, 1.1), (2e9, 2.1), (4e9, 4.1)]));
        assert!(
            (pace.per_step - 0.1).abs() < 1e-9 && (pace.seconds(3e9) - 3.1).abs() < 1e-9,
            "{pace:?}"
        );
        // One size says nothing about the part that does not grow, and one step is better than
        // none.
        assert_eq!(
            Pace::of(&steps(&[(2e9, 4.0)])),
            Pace {
                per_step: 0.0,
                per_flop: 2e-9
            }
        );
        // Small steps that were slower by chance: the time of all is the mean.
        let noisy = Pace::of(&steps(&[(1e9, 3.0), (3e9, 1.0)]));
        assert_eq!(
            noisy,
            Pace {
                per_step: 2.0,
                per_flop: 0.0
            }
        );
        // A line that would start below 0 goes through 0.
        let steep = Pace::of(&steps(&[(1e9, 0.5), (3e9, 3.5)]));
        assert_eq!(
            steep,
            Pace {
                per_step: 0.0,
                per_flop: 1e-9
            }
        );
    }

    #[test]
    fn validations_are_part_of_the_time() {
        let work = Workload {
            step_flops: 2e9,
            steps: 1000,
            validate_every: 300,
        };
        let estimate = TimeEstimate::new(&steps(&[(1e9, 1.0), (3e9, 3.0)]), Some(30.0), work);
        assert_eq!(
            (estimate.step_seconds, estimate.target_tokens_per_second),
            (2.0, 50.0)
        );
        assert_eq!((estimate.validations, estimate.total_seconds), (4, 2120.0));
        let without = TimeEstimate::new(&steps(&[(2e9, 2.0)]), None, work);
        assert_eq!((without.validations, without.total_seconds), (0, 2000.0));
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let text = [4.26, 40.0, 150.0, 720.0, 7200.0, 259_200.0].map(duration);
        assert_eq!(
            text,
            ["4.3 s", "40 s", "2.5 min", "12 min", "2.0 h", "3.0 days"]
        );
    }
}
