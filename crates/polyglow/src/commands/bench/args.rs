//! The arguments of `polyglow bench`, and which of its parts has which option.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use polyglow_train::workload::BatchShape;

use crate::bench::{ModelArgs, parse_shape, repetitions, vocab_sizes};

/// The arguments of `polyglow bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// `step`: training steps; `search`: greedy and beam search; `data`: from text to batches
    #[arg(value_enum)]
    pub(super) part: Part,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// With `step`: a batch of random sentences, as rows x source tokens x target tokens; may be
    /// repeated
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = parse_shape)]
    pub(super) shapes: Vec<BatchShape>,
    /// With `step` and `search`: vocabulary size of random sentences [default: 9708]
    #[arg(long, value_name = "N", value_parser = vocab_sizes())]
    pub(super) vocab_size: Option<usize>,
    /// With `step` and `search`: measured repetitions, after a warm-up [default: 10]
    #[arg(long, value_name = "N", value_parser = repetitions())]
    pub(super) repetitions: Option<u64>,
    /// With `search`: also measure 8-bit matrices, as `polyglow quantize` makes them
    #[arg(long)]
    pub(super) int8: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write a timeline that Perfetto (ui.perfetto.dev) and Chrome open
    #[arg(long, value_name = "FILE")]
    pub(super) profile: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Step,
    Search,
    Data,
}

impl BenchArgs {
    /// The first option that was given and that this part does not have.
    pub(super) fn unused(&self) -> Option<&'static str> {
        use Part::{Search, Step};
        let options: [(&str, bool, &[Part]); 4] = [
            ("--shape", !self.shapes.is_empty(), &[Step]),
            ("--vocab-size", self.vocab_size.is_some(), &[Step, Search]),
            ("--repetitions", self.repetitions.is_some(), &[Step, Search]),
            ("--int8", self.int8, &[Search]),
        ];
        options
            .into_iter()
            .find(|(_, given, parts)| *given && !parts.contains(&self.part))
            .map(|(name, ..)| name)
    }

    /// Measured repetitions.
    pub(super) fn repetitions(&self) -> u64 {
        self.repetitions.unwrap_or(10)
    }
}
