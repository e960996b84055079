//! Being asked to stop: Ctrl-C and SIGTERM end training after the step; a second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A process that a signal ended has this and the signal's number as its exit code, as shells have it.
const KILLED: i32 = 128;

/// Set once somebody wants training to end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// A flag that Ctrl-C and SIGTERM set from now on.
    ///
    /// # Errors
    /// The system does not let us handle signals.
    pub fn on_signals() -> anyhow::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, passes the exit, and sets it.
            flag::register_conditional_shutdown(signal, KILLED + signal, Arc::clone(&stop.asked))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.asked)))
                .context("cannot handle signals")?;
        }
        Ok(stop)
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether the end has been asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
