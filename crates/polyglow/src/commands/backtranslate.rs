//! `polyglow backtranslate`: training pairs of text in the target language alone (Sennrich et al.,
//! 2016, "Improving neural machine translation models with monolingual data"), tagged so that the
//! model tells them from translations by people (Caswell et al., 2019, "Tagged back-translation").

mod pairs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use polyglow_data::clean::language::Profile;
use polyglow_data::config::{Content, Direction, TrainFiles};
use polyglow_data::corpus::{Corpus, held_out};
use polyglow_data::error::DataError;
use polyglow_data::file;
use polyglow_data::lines::Lines;
use polyglow_data::pair_files::PairFormat;
use polyglow_predict::group::alone;
use polyglow_train::config::Config;
use polyglow_train::run::{RunDirectory, sha256};

use super::clean::files::{CleanFiles, Form};
use super::clean::{self, PROFILED};
use super::config::ConfigArgs;
use super::model::{LanguageArgs, ModelArgs};
use super::train::{TrainArgs, train};
use super::translate::{self, TranslateArgs};
use super::{counts, share};
use crate::failure::{STOPPED, usage, with_hint};
use crate::inspection::language_warnings;
use pairs::RawPairs;

/// The tag that the hint at the end proposes.
const TAG: &str = "<bt>";
/// The prefix of the name of the table of translations.
const TABLE: &str = "translations";
/// The characters of the hash that follows.
const HASH_LEN: usize = 8;
/// The checkpoint that translates.
const CHECKPOINT: &str = "best";

/// The arguments of `polyglow backtranslate`.
#[derive(Args)]
pub(crate) struct BacktranslateArgs {
    #[command(flatten)]
    source: ConfigArgs,
    /// Text in the target language of the config, one sentence per line
    #[arg(long, value_name = "FILE")]
    mono: PathBuf,
    /// Directory to write to: `translated`, the pairs before they are cleaned, and `train`, those
    /// that stay, with the endings of the languages; `removed.tsv`, `repaired.tsv`,
    /// `report.json` and `report.html`. The same command continues where an earlier one was ended
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Run of a model that translates from the target language to the source language [default:
    /// one is trained with the same config, as `polyglow train --reverse` does]
    #[arg(long, value_name = "RUN")]
    model: Option<PathBuf>,
    /// How translations are chosen: the most probable ones, or drawn at random, which are more
    /// varied and need a good model
    #[arg(long, value_enum, default_value = "beam")]
    method: Method,
    /// Beam size, 1 for greedy search, which is faster [default: the config's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    beam_size: Option<usize>,
    /// Share of the translations to keep, those that the model finds most probable for their length
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share)]
    keep: f64,
    /// Keep what `polyglow clean` would remove
    #[arg(long)]
    no_clean: bool,
}

/// The method by which translations are chosen.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    Beam,
    Sample,
}

/// Trains a model for the other direction unless there is one, translates the text with it, and
/// writes the pairs that stay. Returns the exit code: 0 at the end, [`STOPPED`] where the same
/// command continues.
///
/// # Errors
/// The config is wrong, or its model does not translate; the text cannot be read; the training or
/// the translation fails; a file cannot be written.
pub(crate) fn run(args: &BacktranslateArgs) -> anyhow::Result<u8> {
    let config = args.source.load()?;
    if !config.content().is_parallel() {
        let error = anyhow!(
            "`backtranslate` makes pairs of sentences, and this config's model reads others"
        );
        return Err(usage(error));
    }
    let (src, tgt) = config.data.languages()?;
    let languages = [src.to_owned(), tgt.to_owned()];
    // Before the training, which takes long.
    let held_out = if args.no_clean {
        Vec::new()
    } else {
        held_out(&config.data, Content::PAIRS)?
    };
    let mut lines = Lines::open(&args.mono)?;
    // A line that cannot be read is an error where it is translated.
    if !lines.any(|line| line.map_or(true, |line| !line.trim().is_empty())) {
        let error = anyhow!("`{}` has no text to translate", args.mono.display());
        return Err(usage(error));
    }
    warn_of_language(&args.mono, &languages)?;
    prepare(&args.out)?;
    let Some(model) = reverse_model(args)? else {
        return Ok(STOPPED);
    };
    let table = translate(args, &model, &languages)?;
    let raw = RawPairs::write(args, &table, &languages)?;
    if args.no_clean {
        raw.keep()?;
    } else {
        clean_pairs(args, &config, &held_out, &raw, &languages)?;
    }
    // Last: as long as a table is there, the same command continues.
    remove_tables(&args.out)?;
    print_next(&args.out, &config);
    Ok(0)
}

/// Warns of text that is in another language than the target's.
///
/// # Errors
/// The text cannot be read.
fn warn_of_language(mono: &Path, languages: &[String; 2]) -> anyhow::Result<()> {
    let mut target = Profile::default();
    // A line that is no UTF-8 is an error where it is translated.
    for line in Lines::open(mono)?.take(PROFILED).map_while(Result::ok) {
        target.add(&line);
    }
    let profiles = [Profile::default(), target];
    for warning in language_warnings(&mono.display().to_string(), &profiles, languages) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Makes the directory, and makes sure that nothing is in it but what this command has left there when
/// it was ended before.
///
/// # Errors
/// Something is (exit code 2).
fn prepare(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    let mut names = Vec::new();
    for file in fs::read_dir(dir)? {
        names.push(file?.file_name().to_string_lossy().into_owned());
    }
    if !names.is_empty() && !names.iter().any(|name| is_table(name)) {
        let error = anyhow!("`{}` has files already", dir.display());
        let hint = "give another directory with `--out`, or remove it";
        return Err(with_hint(usage(error), hint));
    }
    // Files that an earlier command was writing when it was killed.
    let is_ours = |name: &str| {
        let beginnings = ["translated.", "train.", "removed.", "repaired.", "report."];
        beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    file::remove_unfinished(dir, is_ours)
        .with_context(|| format!("cannot clear `{}`", dir.display()))
}

/// Makes sure that no pairs were written here before.
///
/// # Errors
/// There are some (exit code 2).
fn check_free(dir: &Path, languages: &[String; 2]) -> anyhow::Result<()> {
    for language in languages {
        let path = dir.join(format!("train.{language}"));
        if path.exists() {
            let error = anyhow!("`{}` is there already", path.display());
            let hint = "give another directory with `--out`, or remove it";
            return Err(with_hint(usage(error), hint));
        }
    }
    Ok(())
}

/// Whether a file is a table of translations, as [`table_name`] names it, complete or not.
fn is_table(name: &str) -> bool {
    let hash = name
        .strip_prefix(TABLE)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.split_once(".tsv"));
    hash.is_some_and(|(hash, _)| {
        let is_hex = |character: char| character.is_ascii_hexdigit();
        hash.len() == HASH_LEN && hash.chars().all(is_hex)
    })
}

/// Removes all tables, also those that are not complete, of commands with other options.
fn remove_tables(dir: &Path) -> anyhow::Result<()> {
    for file in fs::read_dir(dir)? {
        let file = file?;
        if is_table(&file.file_name().to_string_lossy()) {
            let path = file.path();
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the run of the model that translates in the other direction, which is trained to its end
/// unless one is named; nothing if the training was interrupted.
fn reverse_model(args: &BacktranslateArgs) -> anyhow::Result<Option<PathBuf>> {
    if let Some(run) = &args.model {
        return Ok(Some(run.clone()));
    }
    let training = train(&TrainArgs::reversed(args.source.clone()), &alone())?;
    Ok(training.map(|training| training.run.root().to_owned()))
}

/// Translates the text into a table with a row for each line, and returns its path.
fn translate(
    args: &BacktranslateArgs,
    run: &Path,
    languages: &[String; 2],
) -> anyhow::Result<PathBuf> {
    let table = args.out.join(table_name(args, run)?);
    if table.exists() {
        tracing::info!("the text is translated already: `{}`", table.display());
        return Ok(table);
    }
    // Pairs that are there are of another command, whose table may be there, too.
    check_free(&args.out, languages)?;
    let mut model = ModelArgs::of_run(run, CHECKPOINT, args.source.device.clone());
    model.beam_size = args.beam_size;
    let method = match args.method {
        Method::Beam => "beam",
        Method::Sample => "sample",
    };
    model.overrides.push(format!("search.method={method}"));
    let languages = languages_of_model(run, languages)?;
    tracing::info!(
        "translating `{}`; if that is stopped, the same command continues",
        args.mono.display()
    );
    let translation =
        TranslateArgs::resumed_table(model, languages, args.mono.clone(), table.clone());
    translate::run(&translation, &alone())?;
    Ok(table)
}

/// The languages that a run is to translate between: the other way round than the config. A run of a
/// single pair of languages may have other names for them, but it must not translate as the config
/// does.
///
/// # Errors
/// It does (exit code 2).
fn languages_of_model(run: &Path, [src, tgt]: &[String; 2]) -> anyhow::Result<LanguageArgs> {
    let directions = RunDirectory::existing(run)?.config()?.data.directions();
    let is_forward = |known: &Direction| known.src == *src && known.tgt == *tgt;
    if let [only] = &directions[..]
        && !is_forward(only)
    {
        return Ok(LanguageArgs::default());
    }
    Ok(LanguageArgs {
        from: Some(tgt.clone()),
        to: Some(src.clone()),
    })
}

/// The name of the table of translations: all that decides them is in it, so that no table of
/// another text or model is taken for this one.
fn table_name(args: &BacktranslateArgs, run: &Path) -> anyhow::Result<String> {
    let checkpoint = RunDirectory::existing(run)?.weights(CHECKPOINT)?.0;
    let mono = Corpus::open_text("--mono", &args.mono)?.hashes()?;
    let is_sampled = args.method == Method::Sample;
    let decided_by = (
        checkpoint.model_hash(),
        sha256(&mono.whole),
        is_sampled,
        args.beam_size,
    );
    let mut hash = sha256(&serde_json::to_vec(&decided_by)?);
    hash.truncate(HASH_LEN);
    Ok(format!("{TABLE}-{hash}.tsv"))
}

/// Cleans the pairs as `polyglow clean` does, and writes those that stay.
fn clean_pairs(
    args: &BacktranslateArgs,
    config: &Config,
    held_out: &[Corpus],
    raw: &RawPairs,
    languages: &[String; 2],
) -> anyhow::Result<()> {
    let [src, tgt] = &raw.paths;
    let corpus = Corpus::from_files(src, tgt)?;
    let form = Form {
        languages,
        format: PairFormat::default(),
    };
    let files = CleanFiles::create(&args.out, &form)?;
    clean::warn_of_languages(&corpus, languages)?;
    let settings = config.data.clean.clone().unwrap_or_default();
    let report = clean::clean(&corpus, held_out, &settings.without, files);
    let report = report.map_err(|error| match error.downcast_ref() {
        Some(DataError::NothingStays { .. }) => with_hint(
            error,
            "does the model translate well enough? The same command with `--no-clean` keeps all pairs",
        ),
        _ => error,
    })?;
    Ok(clean::print(&mut io::stdout().lock(), &report)?)
}

/// Says how to train with the pairs.
fn print_next(dir: &Path, config: &Config) {
    let path = dir.join("train");
    let text = match &config.data.train {
        Some(TrainFiles::One(text)) => format!("{{ path = \"{}\" }}, ", text.display()),
        // Its tables are the user's.
        _ => "..., ".to_owned(),
    };
    tracing::info!(
        "to train with them, name them beside the text that there is: data.train = [{text}{{ path = \"{}\", tag = \"{TAG}\" }}]",
        path.display()
    );
    let cleaning = config.data.clean.as_ref();
    if cleaning.is_some_and(|settings| settings.scores.is_some()) {
        tracing::info!(
            "`data.clean.scores` has no scores of them: clean the text with `polyglow clean` first, and train with \
             `data.clean = false`"
        );
    }
}
