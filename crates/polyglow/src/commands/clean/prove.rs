//! `--prove`: what each group of filters is worth, in BLEU, by training with and without it, and on
//! other cleanings.
//!
//! Every training has the same config and the same number of steps; only its text differs. In the end it
//! translates the validation set, and translations are compared by paired bootstrap resampling
//! (Koehn, 2004; [`outcome`]). Held-out sentences are removed in all of them: a model that has seen
//! the validation set would score too high, and leaving them in would look like a gain.

mod outcome;
mod texts;
mod trainings;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::slice;

use anyhow::{Context, anyhow};
use clap::Args;
use polyglow_data::clean::cleaning::Cleaning;
use polyglow_data::config::{Split, TrainFiles};
use polyglow_data::corpus::{CLEAN_VERSION, Corpus};
use polyglow_data::file;
use polyglow_metrics::{BleuOptions, Statistics};
use polyglow_train::config::{Config, Difference};
use polyglow_train::run::sha256;
use polyglow_train::tasks::HeldOut;

use super::super::counts;
use super::super::pairs::Pairs;
use super::finish;
use super::mark::check_free;
use crate::failure::{STOPPED, usage, with_hint};
use outcome::{Outcome, Proof, print};
use texts::{TrainingText, open_external, parse_text_name};
use trainings::steps_in;

/// The file that says of what a directory is a proof.
const SETTINGS: &str = "proof.toml";
/// The prefix of its first line.
const STEPS: &str = "# steps of each training: ";

/// The options of a proof.
#[derive(Args)]
pub(super) struct ProveArgs {
    /// Train with and without each group of filters, in `--out`, and say what each is worth in BLEU
    /// on the validation set. The same command continues where an earlier one was ended
    #[arg(long, requires = "out", conflicts_with_all = ["dry_run", "explain", "without"])]
    pub(super) prove: bool,
    /// Steps of each training of `--prove`
    #[arg(long, value_name = "N", default_value = "1000", requires = "prove")]
    #[arg(allow_negative_numbers = true, value_parser = counts())]
    steps: usize,
    /// Minutes that each training of `--prove` takes about, in place of `--steps`: steps are measured
    /// on this machine first
    #[arg(long, value_name = "M", requires = "prove", conflicts_with = "steps")]
    #[arg(value_parser = minutes)]
    minutes: Option<f64>,
    /// Trainings of each text in `--prove`, with seeds of their own
    #[arg(long, value_name = "N", default_value = "2", requires = "prove")]
    #[arg(allow_negative_numbers = true, value_parser = counts())]
    seeds: usize,
    /// Trainings of `--prove` at a time [default: one for each core of a CPU, and one on a GPU]
    #[arg(long, value_name = "N", requires = "prove")]
    #[arg(allow_negative_numbers = true, value_parser = counts())]
    jobs: Option<usize>,
    /// Another cleaning of the text to train on in `--prove`, as `data.train` names files: of another
    /// program, or by hand; may be repeated
    #[arg(long, value_name = "PREFIX", requires = "prove")]
    compare: Vec<PathBuf>,
    /// Train on these texts alone in `--prove`, beside the cleaned one and those of `--compare`:
    /// `as-it-was`, `without-GROUP`; separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "prove")]
    #[arg(value_parser = parse_text_name)]
    texts: Vec<String>,
}

/// All that a proof needs and that is known before anything is computed.
pub(super) struct Preparation<'a> {
    args: &'a ProveArgs,
    dir: &'a Path,
    config: &'a Config,
    /// Steps of each training.
    steps: u64,
    references: Vec<String>,
    bleu: BleuOptions,
}

impl<'a> Preparation<'a> {
    /// Makes sure that the config can be trained with and scored, and that `dir` is free or has this
    /// proof. `scores` is all that decides which scores remove pairs, and `held_out` are the sets that
    /// must not be trained on.
    ///
    /// # Errors
    /// It cannot, or something else is there (exit code 2); the text cannot be read; a trial step
    /// fails.
    pub(super) fn new(
        args: &'a ProveArgs,
        dir: &'a Path,
        text: &'a Pairs,
        held_out: &[Corpus],
        scores: &str,
    ) -> anyhow::Result<Self> {
        let config = check(text)?;
        let compared = args.compare.iter();
        let compared: Vec<Corpus> = compared
            .map(|prefix| open_external(config, prefix))
            .collect::<Result<_, _>>()?;
        let length = match args.minutes {
            Some(minutes) => format!("{minutes} minutes"),
            None => format!("{} steps", args.steps),
        };
        let settings = Settings {
            values: vec![
                ("length", length),
                ("scores", scores.to_owned()),
                ("filters", CLEAN_VERSION.to_string()),
            ],
            contents: vec![
                ("the text", hash(slice::from_ref(&text.corpus))?),
                ("a held-out set", hash(held_out)?),
                ("a text of `--compare`", hash(&compared)?),
            ],
            config,
        };
        let steps = open_proof(dir, &settings, || match args.minutes {
            Some(minutes) => steps_in(minutes, args, config),
            None => Ok(args.steps as u64),
        })?;
        let valid = Corpus::open(&config.data, config.content(), Split::Valid)?;
        let pairs = HeldOut::read(&valid)?;
        let references: Vec<String> = pairs.pairs().iter().map(|pair| pair.tgt.clone()).collect();
        let bleu = BleuOptions {
            tokenizer: config
                .train
                .bleu_tokenizer(references.iter().map(String::as_str))?,
            ..BleuOptions::default()
        };
        Ok(Self {
            args,
            dir,
            config,
            steps,
            references,
            bleu,
        })
    }

    /// Trains with and without each group of filters, and prints what each is worth. Returns the exit
    /// code: 0 at the end, [`STOPPED`] where the same command continues.
    ///
    /// # Errors
    /// No group changes the text (exit code 2); a training fails; a file cannot be written.
    pub(super) fn prove(
        &self,
        text: &Pairs,
        held_out: &[Corpus],
        cleaning: &Cleaning,
        json: bool,
    ) -> anyhow::Result<u8> {
        let ProveArgs { texts, compare, .. } = self.args;
        let report = finish(&cleaning.by_all_filters(), &text.corpus, None)?;
        let texts = TrainingText::all(&report, cleaning, texts, compare);
        let texts = texts.inspect_err(|_| self.forget())?;
        let mut pairs = Vec::new();
        for training_text in &texts {
            let dir = self.dir.join(&training_text.name);
            let config = self.config;
            pairs.push(training_text.write(&dir, text, config, held_out, cleaning)?);
        }
        let Some(seeds) = self.train(&texts)? else {
            tracing::info!("stopped; the same command continues");
            return Ok(STOPPED);
        };
        let mut outcomes: Vec<(Outcome, Statistics)> = Vec::new();
        for ((training_text, pairs), seeds) in texts.iter().zip(pairs).zip(&seeds) {
            let cleaned = outcomes.first();
            let outcome = Outcome::new(training_text, pairs, &self.bleu, seeds, cleaned)?;
            outcomes.push(outcome);
        }
        let proof = Proof {
            steps: self.steps,
            seeds: self.args.seeds,
            pairs: report.counts.pairs,
            texts: outcomes.into_iter().map(|(outcome, _)| outcome).collect(),
        };
        let report = serde_json::to_string_pretty(&proof)? + "\n";
        file::replace(&self.dir.join("proof.json"), report.as_bytes())
            .with_context(|| format!("cannot write into `{}`", self.dir.display()))?;
        let mut out = io::stdout().lock();
        if json {
            out.write_all(report.as_bytes())?;
        } else {
            print(&mut out, &proof)?;
        }
        Ok(0)
    }
}

impl Preparation<'_> {
    /// Removes the directory of a proof of which nothing else was written.
    fn forget(&self) {
        let entries = fs::read_dir(self.dir).map(Iterator::count);
        if entries.is_ok_and(|count| count == 1) {
            // What cannot be removed is in the way of nothing but another proof.
            _ = fs::remove_file(self.dir.join(SETTINGS));
            _ = fs::remove_dir(self.dir);
        }
    }
}

/// Hashes the text of some corpora.
///
/// # Errors
/// A file cannot be read.
fn hash(corpora: &[Corpus]) -> anyhow::Result<String> {
    let mut hashes = Vec::new();
    for corpus in corpora {
        hashes.extend(corpus.content_hash()?);
    }
    Ok(sha256(&hashes))
}

/// Returns the config, if it has what a proof needs.
///
/// # Errors
/// There is no config or no validation set, or its text is more than pairs (exit code 2).
fn check(text: &Pairs) -> anyhow::Result<&Config> {
    let refuse = |hint: &str| {
        let error = anyhow!("`--prove` trains on files of pairs, and scores on a validation set");
        Err(with_hint(usage(error), hint))
    };
    let Some(config) = &text.config else {
        return refuse("give a config in place of `--src` and `--tgt`; `polyglow new` writes one");
    };
    let data = &config.data;
    if data.corpus.is_some() {
        return refuse("`polyglow corpus NAME DIR` writes an embedded corpus to files");
    }
    if !data.has_valid() {
        return refuse("add `valid` to the config's table `[data]`");
    }
    if data.alignments.is_some() {
        return refuse("leave out `data.alignments`, whose lines would be those of another text");
    }
    if matches!(&data.train, Some(TrainFiles::Weighted(_))) {
        return refuse("name one corpus in `data.train`: weights and tags would be lost");
    }
    Ok(config)
}

/// Reads a number of minutes.
///
/// # Errors
/// It is none, or less than a tenth.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok();
    let minutes = minutes.filter(|minutes| *minutes >= 0.1 && *minutes <= 1e6);
    minutes.ok_or_else(|| "give minutes, 0.1 or more".to_owned())
}

/// Makes the directory of a proof, or makes sure that the proof with these settings was begun there.
/// Returns the number of steps of its trainings, for which `choose_steps` is called where it begins.
///
/// # Errors
/// Something else is there (exit code 2); a file cannot be written; `choose_steps` fails.
fn open_proof(
    dir: &Path,
    settings: &Settings,
    choose_steps: impl FnOnce() -> anyhow::Result<u64>,
) -> anyhow::Result<u64> {
    let path = dir.join(SETTINGS);
    if path.exists() {
        let begun = fs::read_to_string(&path)?;
        return settings.read_steps(&begun).map_err(|difference| {
            let error = anyhow!(
                "the proof in `{}` was begun with other settings: {difference}",
                dir.display()
            );
            with_hint(usage(error), "give another directory with `--out`")
        });
    }
    file::remove_unfinished(dir, |name| name == SETTINGS)
        .with_context(|| format!("cannot clear `{}`", dir.display()))?;
    check_free(dir)?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    let steps = choose_steps()?;
    file::replace(&path, settings.to_text(steps)?.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(steps)
}

/// All that a proof depends on. A proof is continued with the same settings alone.
struct Settings<'a> {
    /// Options and versions, by name.
    values: Vec<(&'static str, String)>,
    /// The hashes of texts, by what they are.
    contents: Vec<(&'static str, String)>,
    config: &'a Config,
}

impl Settings<'_> {
    /// Returns the settings as a config, with all else in comments before it.
    fn to_text(&self, steps: u64) -> anyhow::Result<String> {
        let mut text = format!("{STEPS}{steps}\n");
        for (name, value) in self.values.iter().chain(&self.contents) {
            writeln!(text, "{}{value}", comment(name))?;
        }
        text += &self.config.to_toml()?;
        Ok(text)
    }

    /// Reads the number of steps from the settings with which a proof was begun.
    ///
    /// # Errors
    /// They are others: what differs first.
    fn read_steps(&self, begun: &str) -> Result<u64, String> {
        let value = |beginning: &str| begun.lines().find_map(|line| line.strip_prefix(beginning));
        for (name, now) in &self.values {
            let then = value(&comment(name)).unwrap_or("unknown");
            if then != now {
                return Err(format!("{name}: {then}, now {now}"));
            }
        }
        let changed = self
            .contents
            .iter()
            .find(|(name, now)| value(&comment(name)) != Some(now));
        if let Some((name, _)) = changed {
            return Err(format!("{name} has changed"));
        }
        let config = Config::parse(begun).map_err(|error| error.to_string())?;
        let differences = self.config.differences(&config);
        let differences = differences.map_err(|error| error.to_string())?;
        if let Some(Difference { key, ours, theirs }) = differences.first() {
            return Err(format!("`{key} = {theirs}`, now `{ours}`"));
        }
        let steps = value(STEPS).and_then(|steps| steps.parse().ok());
        steps.ok_or_else(|| format!("`{SETTINGS}` has no number of steps"))
    }
}

/// Returns what stands before a setting in the file.
fn comment(name: &str) -> String {
    format!("# {name}: ")
}
