//! The command line. Only this file and its folder know clap: every command gets a plain struct of its arguments.

mod attention;
mod bench;
mod embeddings;
mod generate;
mod metrics;
mod model;
mod translate;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use crate::commands::{
    self, average, check, classify, corpus, devices, evaluate, info, quantize, report, score, train,
};
use crate::{kernel_cache, logging};

use model::Model;

/// Train encoder-decoder Transformers to translate, on any GPU or the CPU, from one TOML file.
#[derive(Parser)]
#[command(name = "polyglow", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Say more (twice: even more)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Say less: warnings only (twice: errors only)
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Try a config: read all its files, report on the data, and run one step on the longest batch
    Check {
        #[command(flatten)]
        source: Source,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Train a model, or resume its training; ends with a test of the result
    Train {
        #[command(flatten)]
        source: Source,
        /// Directory of the run [default: runs/<name of the config>]
        #[arg(long, value_name = "DIR")]
        run: Option<PathBuf>,
        /// Start a new run in this directory from the weights of the run: to fine-tune, or with another schedule or corpus
        #[arg(long, value_name = "NEW_RUN")]
        fork: Option<PathBuf>,
        /// The checkpoint that a fork starts from: `best`, `last`, `step-N`, `average` or `ema`
        #[arg(long, value_name = "NAME", default_value = "best", requires = "fork")]
        checkpoint: String,
        /// Show a dashboard in the terminal; its key `q` stands in for Ctrl-C
        #[arg(long)]
        tui: bool,
    },
    /// Score a trained model: BLEU, chrF, exact match, token accuracy, loss and perplexity; of a language model also bits per
    /// byte, beside those of a 5-gram model; of a classifier accuracy, and precision and recall of each label
    Evaluate {
        #[command(flatten)]
        model: Model,
        /// The set to score: `train`, `valid`, `test`, or a name of `[data.test]`
        #[arg(long, value_name = "NAME", default_value = "test")]
        split: String,
        /// Also report how well attention agrees with gold alignments: a file in the Pharaoh format, a line a pair, or
        /// `gold` for an embedded corpus
        #[arg(long, value_name = "FILE")]
        alignments: Option<PathBuf>,
        /// Print the scores as JSON
        #[arg(long)]
        json: bool,
    },
    /// Translate lines from a file or stdin to stdout
    Translate(translate::Translate),
    /// Explore word vectors, of a run or of a file: neighbors, analogies, a map, sentences, words in their context
    Embeddings(embeddings::Embeddings),
    /// Say what texts or images are: a line each, with the most probable label and its probability
    Classify {
        #[command(flatten)]
        model: Model,
        /// Texts, one a line [default: stdin]; or images, PNG or JPEG
        files: Vec<PathBuf>,
    },
    /// Write text with a language model
    Generate(generate::Generate),
    /// Print how probable a model finds given translations: log-probabilities, for reranking and for filtering data
    Score {
        #[command(flatten)]
        model: Model,
        /// Source text, one sentence a line
        src: PathBuf,
        /// Its translations, as many lines
        tgt: PathBuf,
        /// Print an object a line, with the log-probability of every token
        #[arg(long)]
        json: bool,
    },
    /// Score any text against references: BLEU, chrF and TER, number for number as sacreBLEU
    #[command(after_help = metrics::EXAMPLES)]
    Metrics(Box<metrics::Metrics>),
    /// Show what a model looks at while it translates a sentence: every layer and head, on a page or as a picture
    Attention(attention::Attention),
    /// Average the newest checkpoints of a run into its checkpoint `average`
    Average {
        /// Directory of the run
        run: PathBuf,
        /// Number of checkpoints, the newest first [default: all that were kept]
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
        last: Option<usize>,
    },
    /// Write a checkpoint with matrices of 8 bits: less memory, and a faster search on the CPU
    Quantize {
        /// Directory of the run
        run: PathBuf,
        /// The checkpoint to start from: `best`, `last`, `step-N`, `average`, `ema`, or a path
        #[arg(long, value_name = "NAME", default_value = "best")]
        checkpoint: String,
        /// The checkpoint to write, in place of one that is there
        #[arg(long, value_name = "NAME", default_value = "int8")]
        name: String,
    },
    /// Show the config, parameters, training state and results of a run
    Info {
        /// Directory of the run
        run: PathBuf,
        /// Print all of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a page on one run or several: curves, scores, data, translations over time, side by side
    Report {
        /// Directories of the runs; the others are compared with the first
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The HTML file to write
        #[arg(short, long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
    },
    /// Measure how fast this machine trains, searches, or prepares text
    Bench(bench::Bench),
    /// Write the files of an embedded corpus
    Corpus {
        /// `mini-en-de`, `digits`; with labels `mini-en-de-types`, `-tenses`, `-types-tenses`; pictures `shapes`,
        /// `colored-shapes`, `counted-shapes`, `counted-colored-shapes`
        name: String,
        /// Directory to write to; made if it is not there
        out: PathBuf,
    },
    /// List the backends of this build and the devices found
    Devices {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page
    #[command(hide = true)]
    Man,
}

/// What `check` and `train` start from.
#[derive(Args)]
struct Source {
    /// The config, a TOML file
    config: PathBuf,
    /// Override a key of the config, as in `train.lr=3e-4`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Whole numbers from 1.
fn counts() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Reads the arguments of this process and does what they ask for.
///
/// Help and version are printed here, and so is wrong usage, in clap's own words and with its exit codes.
///
/// # Errors
/// Whatever stops the command.
pub fn run() -> anyhow::Result<ExitCode> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            message.print()?;
            return Ok(ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(1)));
        }
    };
    logging::init(i16::from(cli.verbose) - i16::from(cli.quiet));
    kernel_cache::locate();
    dispatch(cli.command)?;
    Ok(ExitCode::SUCCESS)
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check { source: Source { config, overrides, device }, json } => {
            check::run(&check::CheckArgs { config, overrides, device, json })
        }
        Command::Train { source: Source { config, overrides, device }, run, fork, checkpoint, tui } => {
            train::run(&train::TrainArgs { config, overrides, device, run, fork, checkpoint, tui })
        }
        Command::Evaluate { model, split, alignments, json } => {
            evaluate::run(&evaluate::EvaluateArgs { model: model.into(), split, alignments, json })
        }
        Command::Translate(translate) => commands::translate::run(&translate.into()),
        Command::Embeddings(embeddings) => commands::embeddings::run(&embeddings.into()),
        Command::Classify { model, files } => classify::run(&classify::ClassifyArgs { model: model.into(), files }),
        Command::Generate(generate) => commands::generate::run(&generate.into()),
        Command::Score { model, src, tgt, json } => {
            score::run(&score::ScoreArgs { model: model.into(), src, tgt, json })
        }
        Command::Metrics(metrics) => commands::metrics::run(&(*metrics).into()),
        Command::Attention(attention) => commands::attention::run(&attention.into()),
        Command::Average { run, last } => average::run(&average::AverageArgs { run, last }),
        Command::Quantize { run, checkpoint, name } => quantize::run(&quantize::QuantizeArgs { run, checkpoint, name }),
        Command::Info { run, json } => info::run(&info::InfoArgs { run, json }),
        Command::Report { runs, out } => report::run(&report::ReportArgs { runs, out }),
        Command::Bench(bench) => commands::bench::run(&bench.into()),
        Command::Corpus { name, out } => corpus::run(&corpus::CorpusArgs { name, out }),
        Command::Devices { json } => devices::run(&devices::DevicesArgs { json }),
        Command::Completions { shell } => print_completions(shell),
        Command::Man => print_man_page(),
    }
}

/// Writes the script to memory first: clap's generator panics where stdout is closed.
fn print_completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "polyglow", &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}

fn print_man_page() -> anyhow::Result<()> {
    Ok(clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
