//! The built program and its configuration, as a user meets them.

mod architectures;
mod attention;
mod average;
mod bad_input;
mod bench;
mod check;
mod classification;
mod cli;
mod dashboard;
mod disk;
mod embeddings;
mod fork;
mod formats;
mod info;
mod kills;
mod limits;
mod metrics;
mod program;
mod progress;
mod quantize;
mod report;
mod together;
mod train;
mod translate;
