//! The built program and its configuration, as a user meets them.

mod architectures;
mod attention;
mod average;
mod bad_input;
mod bench;
mod captions;
mod check;
mod classification;
mod cli;
mod dashboard;
mod disk;
mod embeddings;
mod export;
mod fork;
mod formats;
mod info;
mod kills;
mod languages;
mod limits;
mod metrics;
mod moved;
mod mpi;
mod new;
mod program;
mod progress;
mod quantize;
mod readable;
mod report;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod tagging;
mod together;
mod train;
mod translate;
mod user_files;
