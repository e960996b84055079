//! The library, as a program that depends on it meets it.

mod config;
mod skipped_steps;
mod step;
mod together;
