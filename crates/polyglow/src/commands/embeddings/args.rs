//! The arguments of `polyglow embeddings`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use polyglow_model::Side;
use polyglow_view::embeddings::Pool;

use crate::commands::counts;

/// Neighbors that are shown, and words of a plot, by default.
const NEIGHBORS: usize = 10;
const PLOTTED: usize = 200;

/// The arguments of `polyglow embeddings`.
#[derive(Args)]
pub(crate) struct EmbeddingsArgs {
    /// Directory of a run, or a text file of vectors in the format of word2vec or GloVe
    pub(super) source: PathBuf,
    #[command(subcommand)]
    pub(super) action: Action,
    /// The checkpoint of a run: `best`, `last`, `step-N`, `average`, `ema`, `int8`, or the path of
    /// one [default: best]
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) checkpoint: Option<String>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl EmbeddingsArgs {
    /// Whether results go to standard output.
    pub(crate) fn prints_results(&self) -> bool {
        !matches!(self.action, Action::Plot(_) | Action::Export { .. })
    }
}

#[derive(Subcommand)]
pub(super) enum Action {
    /// Print the words nearest to a word, by the cosine of their vectors
    Nearest {
        /// The word; if it is split into several tokens, their mean is used
        word: String,
        #[command(flatten)]
        table: Table,
        #[command(flatten)]
        shown: Shown,
    },
    /// Print what is to C as B is to A: the words nearest to B - A + C
    Analogy {
        /// As `man` in man : king = woman : queen
        a: String,
        /// As `king`
        b: String,
        /// As `woman`
        c: String,
        #[command(flatten)]
        table: Table,
        #[command(flatten)]
        shown: Shown,
    },
    /// Draw words on a plane, by the principal components of their vectors: the frequent words of a
    /// run's training text that are one token each, in the colors of their languages if these share
    /// a vocabulary
    Plot(PlotArgs),
    /// Print for each line of a file, or for one text, the nearest lines
    Sentences(SentencesArgs),
    /// Show how the context changes a word. With a run: its nearest words in other sentences,
    /// before the first layer and after each. With a file of vectors: its nearest words before and
    /// after attention over the vectors of the sentence
    Context(ContextArgs),
    /// Write all vectors in word2vec's text format, with `▁` for a space in a token
    Export {
        /// The file to write
        file: PathBuf,
        #[command(flatten)]
        table: Table,
    },
}

#[derive(Args)]
pub(super) struct PlotArgs {
    /// File with the words, one per line [default: the most frequent of the training text, or the
    /// first of the vocabulary or of the file where there is no such text]
    #[arg(long, value_name = "FILE")]
    pub(super) words: Option<PathBuf>,
    /// Number of words
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "words", value_parser = counts())]
    #[arg(default_value_t = PLOTTED)]
    pub(super) count: usize,
    /// The file to write: `.html`, `.png` or `.svg`
    #[arg(short, long, value_name = "FILE")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) table: Table,
}

#[derive(Args)]
pub(super) struct SentencesArgs {
    /// Text, one sentence per line
    pub(super) file: PathBuf,
    /// How a line becomes one vector: the mean of the states after the last layer, or the state of
    /// the first token
    #[arg(long, default_value = "mean", value_parser = pools())]
    pub(super) pool: Pool,
    /// Print only the lines nearest to this text
    #[arg(long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    #[command(flatten)]
    pub(super) shown: Shown,
}

#[derive(Args)]
pub(super) struct ContextArgs {
    /// A sentence
    pub(super) text: String,
    /// A word of it, separated from others by spaces and punctuation
    #[arg(long)]
    pub(super) word: String,
    #[command(flatten)]
    pub(super) shown: Shown,
    /// With a file of vectors: what dot products are multiplied by [default: 1 / sqrt(dimension)]
    #[arg(long, value_name = "X")]
    pub(super) scale: Option<f64>,
    /// With a file of vectors: how often attention is computed, each time over what the time before
    /// gave [default: 1]
    #[arg(long, value_name = "N", value_parser = counts())]
    pub(super) rounds: Option<usize>,
    /// With a file of vectors: also draw the words and where they move, as `.html`, `.png` or
    /// `.svg`
    #[arg(short, long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Table {
    /// Which side's tokens, for a translation model [default: the source's; `plot` draws both of
    /// one table]
    #[arg(long, value_parser = sides())]
    pub(super) side: Option<Side>,
}

#[derive(Args)]
pub(super) struct Shown {
    /// Number of results to show
    #[arg(short = 'n', long, value_name = "N", value_parser = counts(), default_value_t = NEIGHBORS)]
    pub(super) count: usize,
}

impl Action {
    /// The side whose tokens are requested, or `None` for those that the model reads.
    pub(super) fn side(&self) -> Option<Side> {
        match self {
            Self::Plot(PlotArgs { table, .. })
            | Self::Nearest { table, .. }
            | Self::Analogy { table, .. }
            | Self::Export { table, .. } => table.side,
            Self::Sentences(_) | Self::Context(_) => None,
        }
    }
}

fn sides() -> impl TypedValueParser<Value = Side> {
    PossibleValuesParser::new(["src", "tgt"])
        .map(|name| if name == "src" { Side::Src } else { Side::Tgt })
}

fn pools() -> impl TypedValueParser<Value = Pool> {
    PossibleValuesParser::new(["mean", "first"]).map(|name| {
        if name == "mean" {
            Pool::Mean
        } else {
            Pool::First
        }
    })
}
