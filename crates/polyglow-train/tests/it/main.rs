//! The library, as a program that depends on it meets it.

mod bigram;
#[cfg(feature = "burn-train")]
mod burn_train;
mod config;
mod language;
mod old_runs;
mod optimizer;
mod parts;
mod ranks;
mod runner;
mod schedule;
mod scores;
mod skipped_steps;
mod step;
