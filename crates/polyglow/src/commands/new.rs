//! `polyglow new`: from a folder of parallel text to a config that is measured on this machine.

mod files;
mod split;
mod text;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::Args;
use polyglow_data::config::{CleanConfig, DataConfig, TestFiles, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::file;
use polyglow_data::tokenizer::Kind;
use polyglow_formats::{Format, format_named};
use polyglow_predict::wording::shell_word;
use polyglow_train::config::Config;
use polyglow_train::train::Training;

use super::check::Passing;
use super::export::format_names;
use crate::failure::{usage, with_hint};
use crate::inspection::{Warning, duration, inspect};
use crate::program;
use crate::proposal::{self, Budget, Proposal, propose_for};
use files::{Found, Ignored, find};
pub(super) use split::warn_of_stale;
use split::{count, open, open_utf8, provide};
use text::Subject;

/// The folder for what is split off, in the folder of the data.
const SPLIT: &str = "split";

/// Pairs in a set below which there is a warning.
const FEW: u64 = 100;

/// The arguments of `polyglow new`.
#[derive(Args)]
pub(crate) struct NewArgs {
    /// The config to write [default: <src>-<tgt>.toml]
    config: Option<PathBuf>,
    /// Source language: the ending of the source files, their code in TMX, and the first column of
    /// `.tsv` files
    #[arg(long, value_name = "LANG")]
    src: String,
    /// Target language: the ending of the target files, their code in TMX, and the second column of
    /// `.tsv` files
    #[arg(long, value_name = "LANG")]
    tgt: String,
    /// Folder with the parallel text: `train.en` and `train.fr`, `valid.*` or `dev.*`, `test.*`,
    /// plain or with `.gz` or `.zst`, or `.tsv`, `.tmx` and OPUS's `.zip` files
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Hours that the training may take, its preparation and its test included
    #[arg(long, value_name = "H", default_value_t = 2.0)]
    hours: f64,
    /// Device to train on, as `polyglow devices` lists it
    #[arg(long, value_name = "NAME", default_value = "flex")]
    device: String,
    /// What the model will be exported to, as `polyglow export --to` names it: a format may ask for
    /// another tokenizer
    #[arg(long = "for", value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
}

impl NewArgs {
    /// The kind of tokenizer that the format of `--for` can express: that of SentencePiece, or any.
    fn tokenizer(&self) -> Kind {
        let format = self.format.as_deref().and_then(format_named);
        if format.is_some_and(Format::needs_unigram) {
            Kind::Unigram
        } else {
            Kind::Bpe
        }
    }
}

/// Finds the text, splits sets off where they are missing, measures sizes of models on this
/// machine, and writes a config with the reasons as comments.
///
/// # Errors
/// The config is there already, or the arguments make no sense (exit code 2); there is no parallel
/// text, or too little; a trial step fails; a file cannot be written.
pub(crate) fn run(args: &NewArgs) -> anyhow::Result<()> {
    let path = config_path(args);
    check(args, &path)?;
    let languages = [args.src.as_str(), args.tgt.as_str()];
    let seconds = proposal::seconds(args.hours)?;
    let files = complete(find(&args.data, &args.src, &args.tgt)?, args)?;
    let mut config = Config {
        device: args.device.clone(),
        data: data(&files, languages),
        ..Config::default()
    };
    config.tokenizer.kind = args.tokenizer();
    let pairs = count(&open(&files.train, languages)?)?;
    proposal::prepare(&mut config, pairs, seconds);
    let proposal = measure(config, seconds)?;
    let subject = Subject {
        languages,
        device: &args.device,
        files: &files,
        command: command(args),
    };
    let text = text::write(&subject, &proposal);
    // The text is read back, so that it is a valid config whatever characters the files' names
    // have.
    Config::from_text(&text, &[])?.validate()?;
    file::replace(&path, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    tracing::info!(
        "wrote `{}`, for {} on this machine",
        path.display(),
        duration(seconds)
    );
    for line in &proposal.summary {
        tracing::info!("{line}");
    }
    tracing::info!(
        "next: `{program} check {0}`, then `{program} train {0}`",
        shell_word(&path),
        program = program::name()
    );
    Ok(())
}

/// Returns the path of the config that is written.
fn config_path(args: &NewArgs) -> PathBuf {
    match &args.config {
        Some(path) => path.clone(),
        None => format!("{}-{}.toml", args.src, args.tgt).into(),
    }
}

/// Checks the arguments before the text is read.
///
/// # Errors
/// There is a file at `path`, or the arguments do not fit each other (exit code 2).
fn check(args: &NewArgs, path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        let error = usage(anyhow!("`{}` is there already", path.display()));
        return Err(with_hint(error, "give another name, or remove it"));
    }
    if args.src == args.tgt {
        return Err(usage(anyhow!(
            "`--src` and `--tgt` are both `{}`: the ending of the files must tell the sides apart",
            args.src
        )));
    }
    if args.data.is_file() {
        let error = usage(anyhow!("`--data {}` is a file", args.data.display()));
        return Err(with_hint(error, "give the folder that it is in"));
    }
    Ok(())
}

/// Prepares a training as `train` does, in a directory that is removed again, and proposes settings
/// by trial steps.
fn measure(config: Config, seconds: f64) -> anyhow::Result<Proposal> {
    let mut observer = Passing::new();
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let started = Instant::now();
    let training = Training::prepare(config, directory.path(), &mut observer)?;
    let inspection = inspect(&training, directory.path())?;
    // A training does the same before its first step.
    let before = started.elapsed().as_secs_f64();
    for warning in &inspection.warnings {
        tracing::warn!("{warning}");
    }
    let budget = Budget { seconds, before };
    propose_for(&training, &inspection, budget, &mut observer)
}

/// Returns the command line that makes the same config again.
fn command(args: &NewArgs) -> String {
    let mut command = format!(
        "{} new --src {} --tgt {} --data {} --hours {}",
        program::name(),
        args.src,
        args.tgt,
        shell_word(&args.data),
        args.hours
    );
    if let Some(format) = &args.format {
        command.extend([" --for ", format]);
    }
    command
}

/// Splits off the sets that are missing; those that an earlier command split off the same text are
/// taken again.
fn complete(found: Found, args: &NewArgs) -> anyhow::Result<Found> {
    for Ignored { path, better } in &found.ignored {
        tracing::warn!(
            "`{}` is ignored: another file matches better, `{}`",
            path.display(),
            better.display()
        );
    }
    let mut missing = Vec::new();
    if found.valid.is_none() {
        missing.push("valid");
    }
    if found.tests.is_empty() {
        missing.push("test");
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let folder = args.data.join(SPLIT);
    let languages = [args.src.as_str(), args.tgt.as_str()];
    let held_out: Vec<Corpus> = found
        .valid
        .iter()
        .chain(&found.tests)
        .map(|set| open_utf8(set, languages))
        .collect::<Result<_, _>>()?;
    provide(&found.train, languages, &missing, &held_out, &folder)?;
    for name in &missing {
        warn_of_few(&folder.join(name), languages)?;
    }
    let valid = found.valid.clone().or_else(|| Some(folder.join("valid")));
    let tests = if found.tests.is_empty() {
        vec![folder.join("test")]
    } else {
        found.tests.clone()
    };
    Ok(Found {
        train: folder.join("train"),
        valid,
        tests,
        ..found
    })
}

/// Warns of a set that was split off with fewer than [`FEW`] pairs.
///
/// # Errors
/// It cannot be read.
fn warn_of_few(set: &Path, languages: [&str; 2]) -> anyhow::Result<()> {
    let pairs = count(&open(set, languages)?)?;
    if pairs < FEW {
        let message = format!(
            "`{}` has {pairs} pairs, and of fewer than {FEW} a few decide the score",
            set.display()
        );
        let hint = "give a set of some hundred pairs, from elsewhere or translated for it";
        tracing::warn!("{}", Warning::new(message, hint));
    }
    Ok(())
}

/// Returns the table `[data]` of the config for these files.
fn data(files: &Found, [src, tgt]: [&str; 2]) -> DataConfig {
    let test = match &files.tests[..] {
        [] => None,
        [test] => Some(TestFiles::One(test.clone())),
        tests => Some(TestFiles::Named(
            tests
                .iter()
                .map(|test| (text::name(test), test.clone()))
                .collect(),
        )),
    };
    DataConfig {
        train: Some(TrainFiles::One(files.train.clone())),
        valid: files.valid.clone(),
        test,
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        clean: Some(CleanConfig::default()),
        ..DataConfig::default()
    }
}
