//! The wiring of the `polyglow` program: command line, configuration, the training loop, files and words.
//!
//! Text becomes ids in `polyglow-data`, ids become losses and hypotheses in `polyglow-model`, and text is scored in
//! `polyglow-metrics`; only this crate knows all three. Read [`cli`] and [`commands`] first,
//! then [`config`] and [`device`], then [`mod@train`].

pub mod activity;
pub mod alignment;
pub mod allocator;
pub mod attention;
pub mod bench;
pub mod classification;
pub mod cli;
pub mod commands;
pub mod config;
pub mod confusion;
pub mod device;
pub mod embeddings;
pub mod evaluation;
pub mod failure;
pub mod file;
pub mod forced;
pub mod inspection;
pub mod kernel_cache;
pub mod logging;
pub mod report;
pub mod run_directory;
pub mod split;
pub mod suggestion;
pub mod train;
pub mod translate;
pub mod unknown_words;
pub mod weights;
pub mod workload;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// Runs the program with the arguments of this process and says how it should end.
///
/// Exit codes: 0 when all went well, 1 when something failed, 2 for wrong usage or a wrong configuration. A panic
/// anywhere below becomes an error message here, because a user can do nothing with a stack trace.
pub fn run() -> ExitCode {
    failure::record_panics();
    failure::survive_file_size_limit();
    match panic::catch_unwind(AssertUnwindSafe(cli::run)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => failure::report(&error),
        Err(_) => failure::report_panic(),
    }
}
