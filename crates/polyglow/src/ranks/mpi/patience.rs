//! Waiting for other ranks, with a warning and a limit.

use std::thread;
use std::time::{Duration, Instant};

use polyglow_predict::error::Result;
use polyglow_train::TrainError;

/// The time that ranks wait before they say for whom.
const IMPATIENCE: Duration = Duration::from_mins(1);

/// Waits between two looks for a message, longer and longer: a message that comes soon is taken at
/// once, and one that comes late does not keep a core busy.
pub(super) struct Patience {
    pub(super) since: Instant,
    warned: bool,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            warned: false,
        }
    }

    /// Sleeps a little. `ranks` names those that are waited for.
    ///
    /// # Errors
    /// The wait has been longer than `limit`.
    pub(super) fn wait(&mut self, limit: Duration, ranks: impl Fn() -> String) -> Result<()> {
        let waited = self.since.elapsed();
        if waited > limit {
            return Err(TrainError::new(format!(
                "no sign of {} for {} s (`train.rank_timeout`)",
                ranks(),
                limit.as_secs()
            )));
        }
        if waited > IMPATIENCE && !self.warned {
            self.warned = true;
            tracing::warn!("waiting for {} since {} s", ranks(), waited.as_secs());
        }
        if waited < Duration::from_micros(200) {
            // The others are often there already; a sleep would be longer than the wait.
            thread::yield_now();
        } else {
            // A fiftieth of the time so far is no loss, and a millisecond frees the core.
            thread::sleep((waited / 50).min(Duration::from_millis(1)));
        }
        Ok(())
    }
}
