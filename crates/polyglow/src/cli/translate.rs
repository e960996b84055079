//! The arguments of `polyglow translate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::counts;
use super::model::Model;
use crate::commands::translate::{self, TranslateArgs};

#[derive(Args)]
pub(super) struct Translate {
    #[command(flatten)]
    model: Model,
    /// Text to translate, one sentence a line [default: stdin]
    file: Option<PathBuf>,
    /// Write here in place of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Translations of each line, at most as many as the beam is wide
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    n_best: usize,
    /// `text`: the translations alone; `tsv`: line, rank, score, log-probability, text; `jsonl`: an object a line
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// What each translation begins with, a line for each line of the input
    #[arg(long, value_name = "FILE")]
    prefix: Option<PathBuf>,
    /// Phrases that each translation contains, with tabs between them, a line for each line of the input
    #[arg(long, value_name = "FILE")]
    constraints: Option<PathBuf>,
    /// Put the source word with the most attention in the place of words that the target vocabulary lacks
    #[arg(long)]
    replace_unknown: bool,
    /// Ask for lines at the terminal, with line editing and a history
    #[arg(short, long, conflicts_with_all = ["file", "output", "prefix", "constraints"])]
    interactive: bool,
}

/// How translations are written.
#[derive(Clone, Copy, ValueEnum)]
enum OutputFormat {
    Text,
    Tsv,
    Jsonl,
}

impl From<OutputFormat> for translate::Format {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Text => Self::Text,
            OutputFormat::Tsv => Self::Tsv,
            OutputFormat::Jsonl => Self::Jsonl,
        }
    }
}

impl From<Translate> for TranslateArgs {
    fn from(arguments: Translate) -> Self {
        let Translate { model, file, output, n_best, format, prefix, constraints, replace_unknown, interactive } =
            arguments;
        let (model, format) = (model.into(), format.into());
        Self { model, file, output, n_best, format, prefix, constraints, replace_unknown, interactive }
    }
}
