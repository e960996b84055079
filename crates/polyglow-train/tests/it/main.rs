//! The library, as a program that depends on it meets it.

mod config;
mod optimizer;
mod runner;
mod skipped_steps;
mod step;
