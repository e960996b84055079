//! The options of `polyglow metrics`, named as those of sacreBLEU's command.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, ValueEnum};
use polyglow_metrics::{BleuOptions, ChrfOptions, Smoothing, TerOptions, Tokenizer};

use crate::commands::metrics::{MetricName, MetricsArgs, Style, Task};

/// Below the options in `--help`.
pub(super) const EXAMPLES: &str = "\
Examples:
  polyglow metrics out.de ref.de                     BLEU
  polyglow translate RUN in.en | polyglow metrics - ref.de --metrics bleu chrf ter --json
  polyglow metrics out.de ref1.de ref2.de --metrics chrf --chrf-word-order 2
  polyglow metrics base.de ref.de --hypothesis new.de --paired-bs

The hypotheses come first, the references after them: sacreBLEU's `REF -i HYP` is `HYP REF` here.
The environment variable SACREBLEU_SEED is the seed of every resampling (default: 12345).";

/// What is scored, and how.
#[derive(Args)]
#[expect(clippy::struct_field_names, reason = "fields are named as their options, which are those of sacreBLEU")]
pub(super) struct Metrics {
    /// The hypotheses, one a line; with --hypothesis, those of the baseline
    #[arg(value_name = "HYP")]
    hypothesis: PathBuf,
    /// The references, line by line as the hypotheses; several files for several references a line
    #[arg(value_name = "REF", required = true)]
    references: Vec<PathBuf>,
    /// The hypotheses of a further system, to compare with HYP; may be repeated
    #[arg(long = "hypothesis", value_name = "FILE")]
    systems: Vec<PathBuf>,
    /// References on each line of REF, with tabs between them
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = super::counts())]
    num_refs: usize,
    /// What to compute, with spaces or commas between; with spaces, put it after the files
    #[arg(short, long, value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',', default_value = "bleu")]
    metrics: Vec<Name>,
    /// Score each line
    #[arg(long, conflicts_with_all = ["confidence", "paired_bs", "paired_ar"])]
    sentence_level: bool,
    #[command(flatten)]
    bleu: Bleu,
    #[command(flatten)]
    chrf: Chrf,
    #[command(flatten)]
    ter: Ter,
    #[command(flatten)]
    tests: Tests,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Bleu,
    Chrf,
    Ter,
}

#[derive(Args)]
#[command(next_help_heading = "BLEU")]
struct Bleu {
    /// How lines are split into words: `13a`, `intl`, `char`, `zh` or `none`
    #[arg(long, value_name = "NAME", default_value = "13a")]
    tokenize: Tokenizer,
    /// What an order without a match counts: `exp`, `floor`, `add-k` or `none`
    #[arg(long, value_name = "NAME", default_value = "exp")]
    smooth_method: Smoothing,
    /// The value of `floor` [default: 0.1] or `add-k` [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    smooth_value: Option<f64>,
    /// Ignore case
    #[arg(long)]
    lowercase: bool,
    /// The longest n-grams, in words
    #[arg(long, value_name = "N", default_value = "4", allow_negative_numbers = true, value_parser = super::counts())]
    max_ngram_order: usize,
    /// Leave out orders longer than the hypothesis [default: only with --sentence-level]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    effective_order: Option<bool>,
    /// Do not warn of hypotheses that look tokenized
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
#[command(next_help_heading = "chrF")]
#[expect(clippy::struct_field_names, reason = "fields are named as their options, which are those of sacreBLEU")]
struct Chrf {
    /// The longest n-grams, in characters
    #[arg(long, value_name = "N", default_value = "6", allow_negative_numbers = true)]
    chrf_char_order: usize,
    /// The longest n-grams of words; 2 makes it chrF++
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    chrf_word_order: usize,
    /// How many times as much recall counts as precision
    #[arg(long, value_name = "N", default_value = "2", allow_negative_numbers = true)]
    chrf_beta: u32,
    /// Keep whitespace in n-grams of characters
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
#[expect(clippy::struct_excessive_bools, reason = "these are the four switches of Tercom, independent of each other")]
#[expect(clippy::struct_field_names, reason = "fields are named as their options, which are those of sacreBLEU")]
struct Ter {
    /// Keep case
    #[arg(long)]
    ter_case_sensitive: bool,
    /// Treat Chinese and Japanese characters as words
    #[arg(long)]
    ter_asian_support: bool,
    /// Leave out punctuation
    #[arg(long)]
    ter_no_punct: bool,
    /// Make words of punctuation
    #[arg(long)]
    ter_normalized: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Significance")]
struct Tests {
    /// Add a confidence interval, by bootstrap resampling
    #[arg(long, conflicts_with_all = ["paired_bs", "paired_ar", "systems"])]
    confidence: bool,
    /// Resamples for the interval
    #[arg(long, value_name = "N", default_value = "1000", allow_negative_numbers = true, value_parser = samples())]
    confidence_n: usize,
    /// Compare each further system with HYP by paired bootstrap resampling
    #[arg(long, requires = "systems", conflicts_with = "paired_ar")]
    paired_bs: bool,
    /// Resamples for the comparison
    #[arg(long, value_name = "N", default_value = "1000", allow_negative_numbers = true)]
    #[arg(value_parser = super::counts())]
    paired_bs_n: usize,
    /// Compare each further system with HYP by approximate randomization
    #[arg(long, requires = "systems")]
    paired_ar: bool,
    /// Trials for the comparison
    #[arg(long, value_name = "N", default_value = "10000", allow_negative_numbers = true)]
    #[arg(value_parser = super::counts())]
    paired_ar_n: usize,
}

#[derive(Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print JSON with sacreBLEU's fields: an object, or a list for several metrics or systems; with
    /// --sentence-level, an object a line
    #[arg(long)]
    json: bool,
    /// Print numbers alone
    #[arg(short = 'b', long)]
    score_only: bool,
    /// Decimals of a score
    #[arg(short, long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = decimals())]
    width: usize,
    /// Abbreviate the keys of signatures
    #[arg(long)]
    short: bool,
}

/// An interval of one resample would have no width.
fn samples() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(2..)
}

fn decimals() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=100)
}

impl From<Name> for MetricName {
    fn from(name: Name) -> Self {
        match name {
            Name::Bleu => Self::Bleu,
            Name::Chrf => Self::Chrf,
            Name::Ter => Self::Ter,
        }
    }
}

impl From<Metrics> for MetricsArgs {
    fn from(metrics: Metrics) -> Self {
        let Metrics {
            hypothesis,
            references,
            systems,
            num_refs,
            metrics,
            sentence_level,
            bleu,
            chrf,
            ter,
            tests,
            output,
        } = metrics;
        Self {
            hypothesis,
            references,
            systems,
            num_refs,
            metrics: metrics.into_iter().map(MetricName::from).collect(),
            force: bleu.force,
            bleu: bleu.options(sentence_level),
            chrf: chrf.into(),
            ter: ter.into(),
            task: if sentence_level { Task::Sentences } else { tests.into() },
            style: output.into(),
        }
    }
}

impl Bleu {
    /// Of single sentences, many are too short for the longest order.
    fn options(self, sentence_level: bool) -> BleuOptions {
        let smoothing = match (self.smooth_method, self.smooth_value) {
            (Smoothing::Floor(_), Some(value)) => Smoothing::Floor(value),
            (Smoothing::AddK(_), Some(value)) => Smoothing::AddK(value),
            (method, value) => {
                if value.is_some() {
                    tracing::warn!("`--smooth-value` has no meaning for `--smooth-method {method}`");
                }
                method
            }
        };
        BleuOptions {
            tokenizer: self.tokenize,
            smoothing,
            lowercase: self.lowercase,
            effective_order: self.effective_order.unwrap_or(sentence_level),
            max_order: self.max_ngram_order,
        }
    }
}

impl From<Chrf> for ChrfOptions {
    fn from(chrf: Chrf) -> Self {
        Self {
            char_order: chrf.chrf_char_order,
            word_order: chrf.chrf_word_order,
            beta: chrf.chrf_beta,
            lowercase: chrf.chrf_lowercase,
            whitespace: chrf.chrf_whitespace,
            eps_smoothing: chrf.chrf_eps_smoothing,
        }
    }
}

impl From<Ter> for TerOptions {
    fn from(ter: Ter) -> Self {
        Self {
            case_sensitive: ter.ter_case_sensitive,
            normalized: ter.ter_normalized,
            no_punctuation: ter.ter_no_punct,
            asian_support: ter.ter_asian_support,
        }
    }
}

impl From<Tests> for Task {
    fn from(tests: Tests) -> Self {
        match tests {
            Tests { confidence: true, confidence_n, .. } => Self::Confidence(confidence_n),
            Tests { paired_bs: true, paired_bs_n, .. } => Self::PairedBootstrap(paired_bs_n),
            Tests { paired_ar: true, paired_ar_n, .. } => Self::PairedRandomization(paired_ar_n),
            Tests { .. } => Self::Corpus,
        }
    }
}

impl From<Output> for Style {
    fn from(Output { json, score_only, width, short }: Output) -> Self {
        Self { json, short, score_only, width }
    }
}
