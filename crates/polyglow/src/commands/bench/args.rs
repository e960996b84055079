//! What `polyglow bench` is asked, and which of its parts has which option.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use polyglow_train::workload::BatchShape;

/// Batches of about 2 048 tokens per side.
const SHAPES: [BatchShape; 3] = [
    BatchShape {
        rows: 256,
        src_len: 8,
        tgt_len: 8,
    },
    BatchShape {
        rows: 128,
        src_len: 16,
        tgt_len: 16,
    },
    BatchShape {
        rows: 64,
        src_len: 32,
        tgt_len: 32,
    },
];

/// Longest side and most rows of a batch, and most target or source positions in it.
const MAX_ROWS: usize = 1 << 16;
const MAX_POSITIONS: usize = 1 << 24;

/// What `polyglow bench` is asked to do.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// `step`: training steps; `search`: greedy and beam search; `data`: from text to batches;
    /// `launches`: what a GPU has to do in a step, counted without a GPU; `ranks`: what several
    /// processes would gain, by a model of the network
    #[arg(value_enum)]
    pub(super) part: Part,
    /// The config whose model and text to measure [default: Transformer-Tiny on random sentences]
    pub(super) config: Option<PathBuf>,
    /// Override a key of the config; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,
    /// With `step`, `launches` and `ranks`: a batch of random sentences, as rows x source tokens x
    /// target tokens; may be repeated, but for `launches`
    #[arg(long = "shape", value_name = "ROWSxSRCxTGT", value_parser = shape)]
    pub(super) shapes: Vec<BatchShape>,
    /// With all parts but `data`: vocabulary size of random sentences [default: 9708]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(5..1 << 24))]
    pub(super) vocab_size: Option<usize>,
    /// With `step`, `search` and `ranks`: measured repetitions, after a warm-up [default: 10]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..1_000_000))]
    pub(super) repetitions: Option<u64>,
    /// With `search`: also measure 8-bit matrices, as `polyglow quantize` makes them
    #[arg(long)]
    pub(super) int8: bool,
    /// A shape of the model, as `model.preset` has it
    #[arg(long, value_name = "PRESET", conflicts_with = "config")]
    pub(super) model: Option<String>,
    /// With `ranks`: bits a second between two machines [default: 10G]
    #[arg(long, value_name = "RATE", value_parser = bits)]
    pub(super) network: Option<f64>,
    /// With `ranks`: microseconds that a message takes besides its bytes [default: 20]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) latency: Option<f64>,
    /// With `ranks`: gigabytes a second that a rank copies, sends and adds [default: 0.75, which
    /// was measured with TCP on one core of a virtual machine]
    #[arg(long, value_name = "RATE", value_parser = positive)]
    pub(super) host: Option<f64>,
    /// With `ranks`: milliseconds of a micro-batch, forward and backward, on another machine
    /// [default: measured on this one]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) micro_batch: Option<f64>,
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
    Launches,
    Ranks,
}

impl BenchArgs {
    /// The first option that was given and that this part does not have.
    pub(super) fn unused(&self) -> Option<&'static str> {
        use Part::{Launches, Ranks, Search, Step};
        let of_ranks: &[Part] = &[Ranks];
        let options = [
            (
                "--shape",
                !self.shapes.is_empty(),
                &[Step, Launches, Ranks][..],
            ),
            (
                "--vocab-size",
                self.vocab_size.is_some(),
                &[Step, Search, Launches, Ranks],
            ),
            (
                "--repetitions",
                self.repetitions.is_some(),
                &[Step, Search, Ranks],
            ),
            ("--int8", self.int8, &[Search]),
            ("--network", self.network.is_some(), of_ranks),
            ("--latency", self.latency.is_some(), of_ranks),
            ("--host", self.host.is_some(), of_ranks),
            ("--micro-batch", self.micro_batch.is_some(), of_ranks),
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

    /// The batches of random sentences.
    pub(super) fn shapes(&self) -> &[BatchShape] {
        if self.shapes.is_empty() {
            &SHAPES
        } else {
            &self.shapes
        }
    }
}

/// Reads `128x16x16`.
fn shape(text: &str) -> Result<BatchShape, String> {
    let size = |size: &str| {
        size.parse()
            .ok()
            .filter(|size| (1..=MAX_ROWS).contains(size))
    };
    let sizes: Option<Vec<usize>> = text.split('x').map(size).collect();
    match sizes.as_deref() {
        Some(&[rows, src_len, tgt_len]) if rows * src_len.max(tgt_len) <= MAX_POSITIONS => {
            Ok(BatchShape {
                rows,
                src_len,
                tgt_len,
            })
        }
        _ => Err(format!(
            "expected three whole numbers, as in 128x16x16: from 1 to {MAX_ROWS} each, and at most {MAX_POSITIONS} \
             positions per side"
        )),
    }
}

/// Reads `10G` or `2.5M`, in bits a second.
fn bits(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let unit = match unit {
        "G" | "g" => 1e9,
        "M" | "m" => 1e6,
        _ => return Err("expected a number and a unit, as in 10G or 100M".to_owned()),
    };
    let number: Option<f64> = number
        .parse()
        .ok()
        .filter(|number| *number > 0.0 && f64::is_finite(*number));
    number
        .map(|number| number * unit)
        .ok_or_else(|| "expected a number above 0 before the unit, as in 10G".to_owned())
}

/// Reads a number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text
        .parse()
        .ok()
        .filter(|number| *number > 0.0 && f64::is_finite(*number));
    number.ok_or_else(|| "expected a number above 0".to_owned())
}
