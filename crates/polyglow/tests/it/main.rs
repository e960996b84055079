//! The built program and its configuration, as a user meets them.

mod attention;
mod average;
mod check;
mod cli;
mod config;
mod dashboard;
mod info;
mod metrics;
mod program;
mod progress;
mod report;
mod step;
mod train;
mod translate;
