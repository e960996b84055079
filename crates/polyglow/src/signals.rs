//! Ctrl-C and SIGTERM: the first ends training after the step, a second one ends the process.

use std::sync::Arc;

use anyhow::Context;
use polyglow_train::train::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A process that a signal ended has this and the signal's number as its exit code, as shells have it.
const KILLED: i32 = 128;

/// A flag that Ctrl-C and SIGTERM set from now on.
///
/// # Errors
/// The system does not let us handle signals.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, passes the exit, and sets it.
        flag::register_conditional_shutdown(signal, KILLED + signal, stop.flag())
            .and_then(|_| flag::register(signal, Arc::clone(&stop.flag())))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}
