//! Our schedules as a scheduler of Burn's.

use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};

use crate::train::Schedule;

/// The key of the step in a record.
const STEP: &str = "step";

/// A [`Schedule`] of ours, such as that of a config, as a learning rate scheduler of Burn's, which
/// counts its steps. Its records hold the number of the last step.
#[derive(Clone, Debug)]
pub struct Scheduled {
    schedule: Schedule,
    step: u64,
}

impl From<Schedule> for Scheduled {
    /// Makes the scheduler before the first step.
    fn from(schedule: Schedule) -> Self {
        Self { schedule, step: 0 }
    }
}

impl LrScheduler for Scheduled {
    fn step(&mut self) -> f64 {
        self.step += 1;
        self.schedule.learning_rate(self.step)
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar(STEP, self.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        self.step = record.scalar(STEP).unwrap_or_default();
    }
}
