//! The arguments of `polyglow embeddings`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::counts;
use crate::commands::embeddings::{self, EmbeddingsArgs};
use polyglow_view::embeddings::Pool as PoolKind;

/// Neighbors that are shown, and words of a plot, where the command does not say.
const NEIGHBORS: usize = 10;
const PLOTTED: usize = 200;

#[derive(Args)]
pub(super) struct Embeddings {
    /// Directory of a run, or a text file of vectors in the format of word2vec or GloVe
    source: PathBuf,
    #[command(subcommand)]
    action: Action,
    /// The checkpoint of a run: `best`, `last`, `step-N`, `average`, `ema`, `int8`, or the path of one [default: best]
    #[arg(long, value_name = "NAME", global = true)]
    checkpoint: Option<String>,
    /// Print JSON, where something is printed
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Print the words nearest to a word, by the cosine of their vectors
    Nearest {
        /// The word; if the vocabulary cuts it into several tokens, the mean of theirs
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
    /// Draw words on a plane, by the principal components of their vectors
    Plot {
        /// File with the words, one a line [default: the first ones of the vocabulary]
        #[arg(long, value_name = "FILE")]
        words: Option<PathBuf>,
        /// How many of the vocabulary's words
        #[arg(short = 'n', long, value_name = "N", conflicts_with = "words", value_parser = counts())]
        #[arg(default_value_t = PLOTTED)]
        count: usize,
        /// The file to write: `.html`, `.png` or `.svg`
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        table: Table,
    },
    /// Print for each line of a file, or for one text, the nearest lines
    Sentences {
        /// Text, one sentence a line
        file: PathBuf,
        /// What stands for a line: the mean of the states after the last layer, or the state of the first token
        #[arg(long, value_enum, default_value = "mean")]
        pool: Pool,
        /// Print the lines nearest to this text alone
        #[arg(long, value_name = "TEXT")]
        query: Option<String>,
        #[command(flatten)]
        shown: Shown,
    },
    /// Show how a word takes up its context: the nearest words of other sentences, before the first layer and after each
    Context {
        /// A sentence
        text: String,
        /// A word of it, which spaces and punctuation divide from others
        #[arg(long)]
        word: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Write all vectors in word2vec's text format
    Export {
        /// The file to write
        file: PathBuf,
        #[command(flatten)]
        table: Table,
    },
}

#[derive(Args)]
struct Table {
    /// Whose tokens, of a model that translates [default: the source's]
    #[arg(long, value_enum)]
    side: Option<Side>,
}

#[derive(Args)]
struct Shown {
    /// How many to show
    #[arg(short = 'n', long, value_name = "N", value_parser = counts(), default_value_t = NEIGHBORS)]
    count: usize,
}

/// One side of a pair.
#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Src,
    Tgt,
}

/// What stands for a line.
#[derive(Clone, Copy, ValueEnum)]
enum Pool {
    Mean,
    First,
}

impl From<Embeddings> for EmbeddingsArgs {
    fn from(Embeddings { source, action, checkpoint, json }: Embeddings) -> Self {
        let all = Table { side: None };
        let (action, table, count) = match action {
            Action::Nearest { word, table, shown } => (embeddings::Action::Nearest(word), table, shown.count),
            Action::Analogy { a, b, c, table, shown } => (embeddings::Action::Analogy([a, b, c]), table, shown.count),
            Action::Plot { words, count, out, table } => (embeddings::Action::Plot(words, out), table, count),
            Action::Sentences { file, pool, query, shown } => {
                let pool = match pool {
                    Pool::Mean => PoolKind::Mean,
                    Pool::First => PoolKind::First,
                };
                (embeddings::Action::Sentences(file, pool, query), all, shown.count)
            }
            Action::Context { text, word, shown } => (embeddings::Action::Context(text, word), all, shown.count),
            Action::Export { file, table } => (embeddings::Action::Export(file), table, 0),
        };
        let side = table.side.map(|side| match side {
            Side::Src => polyglow_model::Side::Src,
            Side::Tgt => polyglow_model::Side::Tgt,
        });
        Self { source, checkpoint, side, count, json, action }
    }
}
