//! The command line: the list of commands, and the function that runs each. Arguments are defined beside their command.

use std::io;
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, Parser, Subcommand};

use crate::commands::{
    attention, average, bench, check, classify, corpus, devices, embeddings, evaluate, generate, info, metrics,
    quantize, report, score, train, translate,
};
use crate::{kernel_cache, logging};

/// Train encoder-decoder Transformers to translate, on any GPU or the CPU, from one TOML file.
#[derive(Parser)]
#[command(name = "polyglow", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Increase verbosity; repeat for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Print warnings only; twice: errors only
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Try a config: read all its files, report on the data, and run one step on the longest batch
    Check(check::CheckArgs),
    /// Train a model, or resume its training; ends with a test of the result
    Train(train::TrainArgs),
    /// Score a trained model: BLEU, chrF, exact match, token accuracy, loss and perplexity; of a language model also
    /// bits per byte, beside those of a 5-gram model; of a classifier accuracy, and precision and recall of each label
    Evaluate(evaluate::EvaluateArgs),
    /// Translate lines from a file or stdin to stdout
    Translate(translate::TranslateArgs),
    /// Explore word vectors, of a run or of a file: neighbors, analogies, a map, sentences, words in their context
    Embeddings(embeddings::EmbeddingsArgs),
    /// Classify texts or images: one line each, with the most probable label and its probability
    Classify(classify::ClassifyArgs),
    /// Write text with a language model
    Generate(generate::GenerateArgs),
    /// Print how probable a model finds given translations: log-probabilities, for reranking and for filtering data
    Score(score::ScoreArgs),
    /// Score any text against references: BLEU, chrF and TER, number for number as sacreBLEU
    Metrics(Box<metrics::MetricsArgs>),
    /// Show what a model attends to while it translates a sentence: every layer and head, on a page or as a picture
    Attention(attention::AttentionArgs),
    /// Average the newest checkpoints of a run into its checkpoint `average`
    Average(average::AverageArgs),
    /// Write a checkpoint with 8-bit matrices: less memory, and a faster search on the CPU
    Quantize(quantize::QuantizeArgs),
    /// Show the config, parameters, training state and results of a run
    Info(info::InfoArgs),
    /// Write a page on one run or several: curves, scores, data, translations over time, side by side
    Report(report::ReportArgs),
    /// Measure how fast this machine trains, searches, or prepares text
    Bench(bench::BenchArgs),
    /// Write the files of an embedded corpus
    Corpus(corpus::CorpusArgs),
    /// List the backends of this build and the devices found
    Devices(devices::DevicesArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page
    Man,
}

/// Reads the arguments of this process and runs the command.
///
/// Help and version are printed here, and so is wrong usage, in clap's own words and with its exit codes.
///
/// # Errors
/// Whatever stops the command.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
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
        Command::Check(args) => check::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Translate(args) => translate::run(&args),
        Command::Embeddings(args) => embeddings::run(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Attention(args) => attention::run(&args),
        Command::Average(args) => average::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Corpus(args) => corpus::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Completions { shell } => print_completions(shell),
        Command::Man => print_man_page(),
    }
}

/// Writes the script to memory first, because clap's generator panics if stdout is closed.
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
