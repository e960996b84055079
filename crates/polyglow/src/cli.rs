//! The command line: the list of commands, and the function that runs each. Arguments are defined
//! in the file of their command.

mod unknown_option;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use polyglow_data::file;
use polyglow_predict::device;
use polyglow_predict::group::{Group, alone};

use crate::commands::help::HelpArgs;
#[cfg(feature = "serve")]
use crate::commands::serve;
use crate::commands::{
    align, attention, average, backtranslate, bench, caption, check, classify, clean, corpus,
    devices, embeddings, evaluate, export, generate, help, import, info, metrics, new, new_crate,
    quantize, report, score, train, translate,
};
use crate::logging::Verbosity;
use crate::{kernel_cache, logging, ranks, standard_output};

/// The version, the commit that it was built from where that is known, and the features of the
/// build.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    version(
        option_env!("POLYGLOW_COMMIT"),
        &device::compiled_in(),
        cfg!(feature = "plain"),
    )
});

/// Train encoder-decoder Transformers to translate, on any GPU or the CPU, from one TOML file.
#[derive(Parser)]
#[command(name = "polyglow", version = VERSION.as_str(), propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Subcommand)]
enum Command {
    /// Write a config for the parallel text in a folder: find its files, measure this machine,
    /// choose sizes for a time
    New(new::NewArgs),
    /// Write a program with a model of your own, to begin from
    NewCrate(new_crate::NewCrateArgs),
    /// Clean parallel text: repair what can be read, remove what is no translation, repeats another
    /// pair or is in a test set
    Clean(clean::CleanArgs),
    /// Align the words of parallel text: which of them translate each other, learned from the text
    /// alone
    Align(align::AlignArgs),
    /// Test a config without training: read its files and run some steps; what is odd, what fits,
    /// how long it takes
    Check(check::CheckArgs),
    /// Train a model, or resume its training, and score it on the test sets at the end
    Train(train::TrainArgs),
    /// Score a trained model: BLEU, chrF, exact match, token accuracy, loss and perplexity;
    /// language models also in bits per byte, next to a 5-gram model; classifiers by accuracy, and
    /// by precision and recall of each label
    Evaluate(evaluate::EvaluateArgs),
    /// Translate lines from a file or stdin to stdout
    Translate(translate::TranslateArgs),
    /// Make training pairs of text in the target language alone: train a model for the other
    /// direction, translate the text with it, and clean the result
    Backtranslate(backtranslate::BacktranslateArgs),
    /// Serve translations over HTTP, to clients of LibreTranslate and to browsers
    #[cfg(feature = "serve")]
    Serve(Box<serve::ServeArgs>),
    /// Explore the word vectors of a run or of a file: nearest words, analogies, a map, sentences,
    /// words in context
    Embeddings(embeddings::EmbeddingsArgs),
    /// Describe images: prints a sentence about each
    Caption(caption::CaptionArgs),
    /// Classify texts or images: prints the most probable label of each, with its probability
    Classify(classify::ClassifyArgs),
    /// Write text with a language model
    Generate(generate::GenerateArgs),
    /// Print the log-probabilities that a model gives to existing translations, to rerank them or
    /// to filter data
    Score(score::ScoreArgs),
    /// Score any text against references: BLEU, chrF and TER, with the same results as sacreBLEU
    Metrics(Box<metrics::MetricsArgs>),
    /// Show a model's attention weights on one sentence or image: all layers and heads on a page,
    /// or one as a picture
    Attention(attention::AttentionArgs),
    /// Average the newest checkpoints of a run into its checkpoint `average`
    Average(average::AverageArgs),
    /// Write a checkpoint with 8-bit matrices: less memory, and a faster search on the CPU
    Quantize(quantize::QuantizeArgs),
    /// Write a model for other programs: CTranslate2, Hugging Face's transformers, Argos Translate,
    /// SentencePiece, web pages
    Export(export::ExportArgs),
    /// Make a run of a model that another program has written: Hugging Face's MarianMT (OPUS-MT),
    /// or CTranslate2's
    Import(import::ImportArgs),
    /// Show the config, parameters, training state and results of a run
    Info(info::InfoArgs),
    /// Write a page about one or several runs, side by side: curves, scores, data, translations
    /// over time
    Report(report::ReportArgs),
    /// Measure how fast this machine trains, searches, or prepares text
    Bench(bench::BenchArgs),
    /// Write the files of an embedded corpus
    Corpus(corpus::CorpusArgs),
    /// List the backends of this build and the devices found
    Devices(devices::DevicesArgs),
    /// Print the help of a command, or explain the keys of a config: `help train`,
    /// `help config train.lr`
    Help(HelpArgs),
    /// Print a completion script for a shell, as in `polyglow completions bash >
    /// ~/.local/share/bash-completion/completions/polyglow`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, as in `polyglow man | man -l -`; with `--out DIR`, write one for each
    /// command
    Man {
        /// A directory for `polyglow.1`, `polyglow-train.1` and so on
        #[arg(short, long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// Whether the processes that a launcher starts share its work.
    fn is_shared(&self) -> bool {
        matches!(
            self,
            Self::Train(_) | Self::Evaluate(_) | Self::Translate(_) | Self::Score(_)
        )
    }

    /// Whether its results go to standard output, and would be lost without one.
    fn prints_results(&self) -> bool {
        match self {
            Self::Translate(args) => args.prints_results(),
            Self::Embeddings(args) => args.prints_results(),
            Self::Attention(args) => args.prints_results(),
            Self::Align(args) => args.prints_results(),
            Self::Man { out } => out.is_none(),
            Self::Check(_)
            | Self::Evaluate(_)
            | Self::Caption(_)
            | Self::Classify(_)
            | Self::Generate(_)
            | Self::Score(_)
            | Self::Metrics(_)
            | Self::Info(_)
            | Self::Bench(_)
            | Self::Devices(_)
            | Self::Completions { .. } => true,
            _ => false,
        }
    }
}

/// Reads the arguments of this process and runs the command.
///
/// Help and version are printed here, and so is wrong usage, in clap's own words and with its exit
/// codes.
///
/// # Errors
/// Whatever stops the command.
pub(crate) fn run() -> anyhow::Result<u8> {
    run_with(&std::env::args_os().collect::<Vec<_>>())
}

fn run_with(arguments: &[OsString]) -> anyhow::Result<u8> {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(message) => {
            bench::refuse_moved(arguments)?;
            let message = unknown_option::explain(message, arguments, &Cli::command());
            message.print()?;
            return Ok(u8::try_from(message.exit_code()).unwrap_or(1));
        }
    };
    let group = if cli.command.is_shared() {
        ranks::enter()?
    } else {
        alone()
    };
    // In a training rank 0 logs for all; in a translation each rank warns of its own lines.
    let speaks = group.is_first() || matches!(cli.command, Command::Translate(_));
    logging::init(cli.verbosity, group.is_first(), speaks);
    ranks::warn();
    kernel_cache::locate();
    if cli.command.prints_results() {
        standard_output::ensure_open()?;
    }
    dispatch(cli.command, &group)
}

/// `0.1.0 (1a2b3c4d5e6f), with flex and cuda`.
fn version(commit: Option<&str>, backends: &[&str], is_plain: bool) -> String {
    let commit = commit
        .map(|commit| format!(" ({commit})"))
        .unwrap_or_default();
    let features: Vec<&str> = backends
        .iter()
        .copied()
        .chain(is_plain.then_some("plain"))
        .collect();
    let features = if features.is_empty() {
        "no backend".to_owned()
    } else {
        features.join(", ")
    };
    format!("{}{commit}, with {features}", env!("CARGO_PKG_VERSION"))
}

fn dispatch(command: Command, group: &Arc<dyn Group>) -> anyhow::Result<u8> {
    let done = match command {
        Command::New(args) => new::run(&args),
        Command::NewCrate(args) => new_crate::run(&args),
        Command::Clean(args) => return clean::run(&args),
        Command::Align(args) => return align::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Train(args) => return train::run(&args, group),
        Command::Evaluate(args) => evaluate::run(&args, group),
        Command::Translate(args) => translate::run(&args, group),
        Command::Backtranslate(args) => return backtranslate::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        Command::Embeddings(args) => embeddings::run(&args),
        Command::Caption(args) => caption::run(&args),
        Command::Classify(args) => classify::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Score(args) => score::run(&args, group),
        Command::Metrics(args) => metrics::run(&args),
        Command::Attention(args) => attention::run(&args),
        Command::Average(args) => average::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Corpus(args) => corpus::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Help(HelpArgs { topics }) => return print_help(&topics),
        Command::Completions { shell } => print_completions(shell),
        Command::Man { out } => write_man_pages(out.as_deref()),
    };
    done.map(|()| 0)
}

/// Prints the help of a command, as `help train` for `train --help`, or of keys of a config.
fn print_help(topics: &[String]) -> anyhow::Result<u8> {
    match topics.split_first() {
        Some((first, keys)) if first == "config" => help::explain(keys).map(|()| 0),
        _ => {
            let mut words = vec![OsString::from("polyglow")];
            words.extend(topics.iter().map(OsString::from));
            words.push(OsString::from("--help"));
            run_with(&words)
        }
    }
}

/// Writes the script to memory first, because clap's generator panics if stdout is closed.
fn print_completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "polyglow", &mut script);
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}

fn write_man_pages(out: Option<&Path>) -> anyhow::Result<()> {
    let Some(dir) = out else {
        return Ok(clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?);
    };
    fs_err::create_dir_all(dir)?;
    let mut program = Cli::command();
    program.build();
    write_man_page_of(program, dir)
}

/// Writes the page of a command into a directory, and those of its subcommands.
fn write_man_page_of(command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_man_page_of(subcommand.clone(), dir)?;
    }
    let page = clap_mangen::Man::new(command);
    let path = dir.join(page.get_filename());
    let written = file::write_with(&path, |mut out| page.render(&mut out));
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_version_names_the_commit_where_it_is_known_and_the_features() {
        let number = env!("CARGO_PKG_VERSION");
        assert_eq!(
            version(Some("1a2b3c"), &["flex", "cuda"], false),
            format!("{number} (1a2b3c), with flex, cuda")
        );
        assert_eq!(
            version(None, &["flex"], true),
            format!("{number}, with flex, plain")
        );
        assert_eq!(
            version(None, &[], false),
            format!("{number}, with no backend")
        );
    }
}
