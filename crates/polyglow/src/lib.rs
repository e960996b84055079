//! The `polyglow` program: its command line, its commands, and what they print. The work is done by
//! the libraries.
//!
//! Read `cli.rs` and `commands/` first; a command wires the libraries together, and prints.

mod activity;
pub mod allocator;
#[doc(hidden)]
pub mod bench;
mod cli;
mod commands;
mod cpu_time;
mod dashboard;
mod failure;
mod inspection;
mod kernel_cache;
mod logging;
mod program;
mod progress;
mod proposal;
mod ranks;
mod reference;
mod registry;
mod signals;
mod standard_output;

use std::panic;
use std::process::ExitCode;

#[doc(hidden)]
pub use failure::{usage, with_hint};
#[doc(hidden)]
pub use logging::Verbosity;
pub use registry::{Registry, run_with};

/// Runs the program with the arguments of this process and says how it should end.
///
/// Exit codes: 0 when all went well, 1 when something failed, 2 for wrong usage or a wrong
/// configuration, 75 when a training was stopped before its end. A panic anywhere below becomes an
/// error message here, because a stack trace does not help a user.
pub fn run() -> ExitCode {
    run_with(Registry::new())
}

/// Runs `program`, and reports its error or its panic as [`run`] does: the frame of this program
/// and of `polyglow-bench`.
#[doc(hidden)]
pub fn run_program(program: fn() -> anyhow::Result<u8>) -> ExitCode {
    failure::record_panics();
    failure::survive_file_size_limit();
    match panic::catch_unwind(program) {
        Ok(Ok(code)) => ranks::end(code),
        Ok(Err(error)) => ranks::end_all(failure::report(&error)),
        Err(_) => ranks::end_all(failure::report_panic()),
    }
}

/// Prepares a program that prints results, once its arguments are known: messages to stderr, where
/// GPU kernels are kept, and a standard output.
///
/// # Errors
/// The process was started without a standard output.
#[doc(hidden)]
pub fn begin(verbosity: Verbosity) -> anyhow::Result<()> {
    logging::init(verbosity, true, true);
    kernel_cache::locate();
    standard_output::ensure_open()
}
