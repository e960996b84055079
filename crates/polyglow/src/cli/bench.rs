//! The options of `polyglow bench`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::commands::bench::{self, BenchArgs};
use polyglow_train::workload::BatchShape;

/// Longest side and most rows of a batch, and most target or source positions in it.
const MOST_ROWS: usize = 1 << 16;
const MOST_POSITIONS: usize = 1 << 24;

/// What is measured, and on what.
#[derive(Args)]
pub(super) struct Bench {
    /// `step`: training steps; `search`: greedy and beam search; `data`: from text to batches; `embedding`: two ways to look
    /// up embeddings
    #[arg(value_enum)]
    part: Part,
    /// The config whose model and text to measure [default: Transformer-Tiny on random sentences]
    config: Option<PathBuf>,
    /// Override a key of the config; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A batch of random sentences, as rows x source tokens x target tokens; may be repeated
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = shape, conflicts_with = "config")]
    shapes: Vec<BatchShape>,
    /// Tokens of the vocabulary of random sentences
    #[arg(long, value_name = "N", default_value = "9708", conflicts_with = "config",
          value_parser = RangedU64ValueParser::<usize>::new().range(5..1 << 24))]
    vocab_size: usize,
    /// Measured repetitions, after a warm-up
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = RangedU64ValueParser::<u64>::new().range(1..1_000_000))]
    repetitions: u64,
    /// With `search`: measure matrices of 8 bits, too, as `polyglow quantize` makes them
    #[arg(long)]
    int8: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write a timeline that Perfetto (ui.perfetto.dev) and Chrome open
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Step,
    Search,
    Data,
    Embedding,
}

impl From<Bench> for BenchArgs {
    fn from(options: Bench) -> Self {
        let Bench { part, config, overrides, device, shapes, vocab_size, repetitions, int8, json, profile } = options;
        let part = match part {
            Part::Step => bench::Part::Step,
            Part::Search => bench::Part::Search,
            Part::Data => bench::Part::Data,
            Part::Embedding => bench::Part::Embedding,
        };
        Self { part, config, overrides, device, shapes, vocab_size, int8, repetitions, json, profile }
    }
}

/// Reads `128x16x16`.
fn shape(text: &str) -> Result<BatchShape, String> {
    let size = |size: &str| size.parse().ok().filter(|size| (1..=MOST_ROWS).contains(size));
    let sizes: Option<Vec<usize>> = text.split('x').map(size).collect();
    match sizes.as_deref() {
        Some(&[rows, src_len, tgt_len]) if rows * src_len.max(tgt_len) <= MOST_POSITIONS => {
            Ok(BatchShape { rows, src_len, tgt_len })
        }
        _ => Err(format!(
            "three whole numbers are wanted, as in 128x16x16: from 1 to {MOST_ROWS} each, and at most {MOST_POSITIONS} \
             positions a side"
        )),
    }
}
