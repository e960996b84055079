//! One verb of the command line per file: each wires rooms of the house together and prints the result.

pub mod attention;
pub mod average;
pub mod bench;
pub mod check;
pub mod classify;
pub mod corpus;
pub mod devices;
pub mod embeddings;
pub mod evaluate;
pub mod generate;
pub mod info;
pub mod metrics;
pub mod model;
pub mod quantize;
pub mod report;
pub mod score;
pub mod train;
pub mod translate;
