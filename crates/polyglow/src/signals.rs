//! Ctrl-C, SIGTERM, SIGUSR1, and SIGHUP, the signal of a terminal that was closed: training saves
//! and ends after the step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use polyglow_train::train::Stop;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGUSR1};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::STOPPED;

/// The context of an error of the system.
const CANNOT: &str = "cannot handle signals";
/// The exit code after a signal is this plus the signal's number, as in shells.
const KILLED: i32 = 128;

/// The signals that a training has received.
pub(crate) struct Signals {
    /// Set by the first of them.
    pub(crate) stop: Stop,
    /// Set by the first Ctrl-C or SIGTERM: the next one ends the process.
    interrupted: Arc<AtomicBool>,
    /// Set where there is nothing to save, before the first step and after the last: any signal
    /// ends the process, with the exit code of a training that is not done.
    nothing_to_save: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers. Until [`Self::save_from_now_on`] a signal ends the process.
    ///
    /// A second Ctrl-C or SIGTERM ends the process. SIGHUP never does before the training is saved:
    /// a closed terminal may send it more than once, and a service manager sends SIGTERM with it.
    /// Under `nohup`, which ignores it, it stays ignored.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let signals = Self {
            stop: Stop::default(),
            interrupted: Arc::default(),
            nothing_to_save: Arc::new(AtomicBool::new(true)),
            hung_up: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal finds the flag unset, so it does not exit, and
            // sets it.
            signals.register(signal)?;
            flag::register_conditional_shutdown(
                signal,
                KILLED + signal,
                Arc::clone(&signals.interrupted),
            )
            .and_then(|_| flag::register(signal, Arc::clone(&signals.interrupted)))
            .context(CANNOT)?;
        }
        // Slurm sends it before the time is up, and `mpirun` passes it on and ends no process.
        #[cfg(unix)]
        signals.register(SIGUSR1)?;
        #[cfg(unix)]
        if !is_ignored(SIGHUP) {
            signals.register(SIGHUP)?;
            flag::register(SIGHUP, Arc::clone(&signals.hung_up)).context(CANNOT)?;
        }
        Ok(signals)
    }

    /// Lets a signal end the process if there is nothing to save, and stop the training otherwise.
    fn register(&self, signal: i32) -> anyhow::Result<()> {
        // Registered first, because handlers run in that order: the flag of the training is for a
        // process that is not ended here.
        let ends = Arc::clone(&self.nothing_to_save);
        flag::register_conditional_shutdown(signal, STOPPED.into(), ends)
            .and_then(|_| flag::register(signal, self.stop.flag()))
            .map(drop)
            .context(CANNOT)
    }

    /// Lets signals stop the training, which saves and ends, from now on.
    pub(crate) fn save_from_now_on(&self) {
        self.nothing_to_save.store(false, Ordering::Relaxed);
    }

    /// Lets the next signal, whichever it is, end the process.
    pub(crate) fn end_process_from_now_on(&self) {
        self.nothing_to_save.store(true, Ordering::Relaxed);
    }

    /// Whether the terminal was closed.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }
}

/// Whether the process was started with a signal ignored.
#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "the standard library cannot ask how a signal is handled"
)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action `sigaction` changes nothing and writes the present one to
    // `action`; where it returns 0, it has.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
