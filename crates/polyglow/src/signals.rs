//! Ctrl-C and SIGTERM: the first ends training after the step, a second one ends the process.

use std::sync::Arc;

use anyhow::Context;
use polyglow_train::train::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code after a signal is this plus the signal's number, as in shells.
const KILLED: i32 = 128;

/// Installs handlers of Ctrl-C and SIGTERM that set the returned flag.
///
/// # Errors
/// The handlers cannot be installed.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag unset, so it does not exit, and sets it.
        flag::register_conditional_shutdown(signal, KILLED + signal, stop.flag())
            .and_then(|_| flag::register(signal, Arc::clone(&stop.flag())))
            .context("cannot handle signals")?;
    }
    Ok(stop)
}
