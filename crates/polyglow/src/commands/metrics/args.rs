//! The arguments of `polyglow metrics`, named as the options of sacreBLEU's command.

mod bleu;

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use polyglow_metrics::{ChrfOptions, TerOptions};

use crate::commands::counts;
use bleu::BleuArgs;

/// Below the options in `--help`.
const EXAMPLES: &str = "\
Examples:
  polyglow metrics out.de ref.de                     BLEU
  polyglow translate RUN in.en | polyglow metrics - ref.de --metrics bleu chrf ter --json
  polyglow metrics out.de ref1.de ref2.de --metrics chrf --chrf-word-order 2
  polyglow metrics base.de ref.de --hypothesis new.de --paired-bs
  polyglow metrics out.th ref.th --tokenize auto     characters, since Thai has no spaces
  polyglow metrics out.ja ref.ja -l en-ja --dictionary site-packages/ipadic/dicdir

The hypotheses come first, the references after them: sacreBLEU's `REF -i HYP` is `HYP REF` here.
The environment variable SACREBLEU_SEED is the seed of every resampling (default: 12345).";

/// The arguments of `polyglow metrics`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MetricsArgs {
    /// The hypotheses, one per line; with --hypothesis, those of the baseline
    #[arg(value_name = "HYP")]
    pub(super) hypothesis: PathBuf,
    /// The references, one per line of HYP; several files for several references per line
    #[arg(value_name = "REF", required = true)]
    pub(super) references: Vec<PathBuf>,
    /// The hypotheses of another system, to compare with HYP; may be repeated
    #[arg(long = "hypothesis", value_name = "FILE")]
    pub(super) systems: Vec<PathBuf>,
    /// References on each line of REF, separated by tabs
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    pub(super) num_refs: usize,
    /// What to compute, separated by spaces or commas; with spaces, put it after the files
    #[arg(short, long, value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',', default_value = "bleu")]
    pub(super) metrics: Vec<MetricName>,
    /// Score each line
    #[arg(long, conflicts_with_all = ["confidence", "paired_bs", "paired_ar"])]
    pub(super) sentence_level: bool,
    #[command(flatten)]
    pub(super) bleu: BleuArgs,
    #[command(flatten)]
    pub(super) chrf: ChrfArgs,
    #[command(flatten)]
    pub(super) ter: TerArgs,
    #[command(flatten)]
    tests: TestArgs,
    #[command(flatten)]
    pub(super) style: Style,
}

/// A metric, in the order in which sacreBLEU prints scores, unless it makes a paired test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum MetricName {
    Bleu,
    Chrf,
    Ter,
}

#[derive(Args)]
#[command(next_help_heading = "chrF")]
#[expect(
    clippy::struct_field_names,
    reason = "fields are named as their options, which are those of sacreBLEU"
)]
pub(super) struct ChrfArgs {
    /// Maximum n-gram order, in characters
    #[arg(
        long,
        value_name = "N",
        default_value = "6",
        allow_negative_numbers = true
    )]
    chrf_char_order: usize,
    /// Maximum word n-gram order; 2 gives chrF++
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        allow_negative_numbers = true
    )]
    chrf_word_order: usize,
    /// Weight of recall relative to precision
    #[arg(
        long,
        value_name = "N",
        default_value = "2",
        allow_negative_numbers = true
    )]
    chrf_beta: u32,
    /// Keep whitespace in character n-grams
    #[arg(long)]
    chrf_whitespace: bool,
    /// Ignore case
    #[arg(long)]
    chrf_lowercase: bool,
    /// Average over all orders, with epsilon for zero, as chrF++.py, NLTK and Moses do
    #[arg(long)]
    chrf_eps_smoothing: bool,
}

#[derive(Args)]
#[command(next_help_heading = "TER")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the four switches of Tercom, independent of each other"
)]
pub(super) struct TerArgs {
    /// Keep case
    #[arg(long)]
    ter_case_sensitive: bool,
    /// Treat Chinese and Japanese characters as words
    #[arg(long)]
    ter_asian_support: bool,
    /// Remove punctuation
    #[arg(long)]
    ter_no_punct: bool,
    /// Split punctuation from words
    #[arg(long)]
    ter_normalized: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Significance")]
struct TestArgs {
    /// Add a confidence interval, by bootstrap resampling
    #[arg(long, conflicts_with_all = ["paired_bs", "paired_ar", "systems"])]
    confidence: bool,
    /// Resamples for the interval
    #[arg(long, value_name = "N", default_value = "1000", allow_negative_numbers = true, value_parser = resamples())]
    confidence_n: usize,
    /// Compare each further system with HYP by paired bootstrap resampling
    #[arg(long, requires = "systems", conflicts_with = "paired_ar")]
    paired_bs: bool,
    /// Resamples for the comparison
    #[arg(long, value_name = "N", default_value = "1000", allow_negative_numbers = true, value_parser = counts())]
    paired_bs_n: usize,
    /// Compare each further system with HYP by approximate randomization
    #[arg(long, requires = "systems")]
    paired_ar: bool,
    /// Trials for the comparison
    #[arg(long, value_name = "N", default_value = "10000", allow_negative_numbers = true, value_parser = counts())]
    paired_ar_n: usize,
}

/// How scores are printed.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Output")]
pub(super) struct Style {
    /// Print JSON with sacreBLEU's fields: an object, or a list for several metrics or systems;
    /// with --sentence-level, one object per line
    #[arg(long)]
    pub(super) json: bool,
    /// Print only the numbers
    #[arg(short = 'b', long)]
    pub(super) score_only: bool,
    /// Decimals of a score
    #[arg(short, long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = decimals())]
    pub(super) width: usize,
    /// Abbreviate the keys of signatures
    #[arg(long)]
    pub(super) short: bool,
}

/// The kind of scoring: of corpora or lines, and with which test of significance.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// The corpus, of each system.
    Corpus,
    /// The corpus, with a confidence interval from this many resamples.
    Confidence(usize),
    /// Each line.
    Sentences,
    /// The corpus, each further system compared with the first on this many resamples.
    PairedBootstrap(usize),
    /// The corpus, each further system compared with the first in this many trials that exchange
    /// lines.
    PairedRandomization(usize),
}

/// An interval of one resample would have no width.
fn resamples() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(2..)
}

fn decimals() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=100)
}

impl MetricsArgs {
    pub(super) fn task(&self) -> Task {
        match self.tests {
            _ if self.sentence_level => Task::Sentences,
            TestArgs {
                confidence: true,
                confidence_n,
                ..
            } => Task::Confidence(confidence_n),
            TestArgs {
                paired_bs: true,
                paired_bs_n,
                ..
            } => Task::PairedBootstrap(paired_bs_n),
            TestArgs {
                paired_ar: true,
                paired_ar_n,
                ..
            } => Task::PairedRandomization(paired_ar_n),
            TestArgs { .. } => Task::Corpus,
        }
    }
}

impl ChrfArgs {
    pub(super) fn options(&self) -> ChrfOptions {
        ChrfOptions {
            char_order: self.chrf_char_order,
            word_order: self.chrf_word_order,
            beta: self.chrf_beta,
            lowercase: self.chrf_lowercase,
            whitespace: self.chrf_whitespace,
            eps_smoothing: self.chrf_eps_smoothing,
        }
    }
}

impl TerArgs {
    pub(super) fn options(&self) -> TerOptions {
        TerOptions {
            case_sensitive: self.ter_case_sensitive,
            normalized: self.ter_normalized,
            no_punctuation: self.ter_no_punct,
            asian_support: self.ter_asian_support,
        }
    }
}
