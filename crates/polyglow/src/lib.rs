//! The `polyglow` program: its command line, its commands, and what they print. The work is done by
//! the libraries.
//!
//! Read `cli.rs` and `commands/` first; a command wires the libraries together, and prints.

mod activity;
pub mod allocator;
mod bench;
mod cli;
mod commands;
mod dashboard;
mod failure;
mod inspection;
mod kernel_cache;
mod logging;
mod progress;
mod proposal;
mod ranks;
mod reference;
mod signals;
mod standard_output;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// Runs the program with the arguments of this process and says how it should end.
///
/// Exit codes: 0 when all went well, 1 when something failed, 2 for wrong usage or a wrong
/// configuration, 75 when a training was stopped before its end. A panic anywhere below becomes an
/// error message here, because a stack trace does not help a user.
pub fn run() -> ExitCode {
    failure::record_panics();
    failure::survive_file_size_limit();
    match panic::catch_unwind(AssertUnwindSafe(cli::run)) {
        Ok(Ok(code)) => ranks::end(code),
        Ok(Err(error)) => ranks::end_all(failure::report(&error)),
        Err(_) => ranks::end_all(failure::report_panic()),
    }
}
