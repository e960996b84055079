//! `--prove`: what each group of filters is worth, in BLEU, by training with and without it, and on other cleanings.
//!
//! Every training has the same config and the same number of steps; only its text differs. In the end it
//! translates the validation set, and translations are compared by paired bootstrap resampling
//! (Koehn, 2004; [`outcome`]). Held-out sentences are removed in all of them: a model that has seen
//! the validation set would score too high, and leaving them in would look like a gain.

mod outcome;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use polyglow_data::clean::cleaning::{Cleaning, reasons};
use polyglow_data::clean::group::Group;
use polyglow_data::config::{Content, Split, TrainFiles};
use polyglow_data::corpus::{CLEAN_VERSION, Corpus};
use polyglow_data::file;
use polyglow_data::lines::Lines;
use polyglow_metrics::{BleuOptions, Statistics};
use polyglow_predict::group::alone;
use polyglow_train::config::Config;
use polyglow_train::run::{runner, sha256};
use polyglow_train::tasks::{HeldOut, evaluate};
use polyglow_train::train::{Ending, Training};

use super::super::counts;
use super::super::pairs::Pairs;
use super::{CleanFiles, Report, check_free, finish, look};
use crate::activity::Pace;
use crate::failure::{STOPPED, usage, with_hint};
use crate::progress::{Progress, Screen};
use crate::signals::Signals;
use outcome::{Outcome, Proof, count, print, score};

/// The share of the pairs that a group has to change for a training without it.
const MIN_CHANGED_SHARE: f64 = 0.005;
/// The name of the text that nothing has cleaned.
const AS_IT_WAS: &str = "as-it-was";
/// What the names of texts begin with that a group of filters has not touched.
const WITHOUT: &str = "without-";
/// The file that says of what a directory is a proof.
const SETTINGS: &str = "proof.toml";

/// How a proof is made.
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
    /// Trainings of each text in `--prove`, with seeds of their own
    #[arg(long, value_name = "N", default_value = "2", requires = "prove")]
    #[arg(allow_negative_numbers = true, value_parser = counts())]
    seeds: usize,
    /// Another cleaning of the text to train on in `--prove`, as `data.train` names files: of another
    /// program, or by hand; may be repeated
    #[arg(long, value_name = "PREFIX", requires = "prove")]
    compare: Vec<PathBuf>,
    /// Train on these texts alone in `--prove`, beside the cleaned one and those of `--compare`:
    /// `as-it-was`, `without-GROUP`; separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "prove")]
    #[arg(value_parser = text_name)]
    texts: Vec<String>,
}

/// A text to train on.
struct Variant {
    /// What it is called in reports, and its directory.
    name: String,
    origin: Origin,
}

/// Where a text to train on comes from.
enum Origin {
    /// It is the text of the config without some groups of filters.
    Without(Vec<Group>),
    /// Another program has cleaned it.
    External(PathBuf),
}

/// What a proof is made of, which is known before anything is computed.
pub(super) struct Preparation<'a> {
    args: &'a ProveArgs,
    dir: &'a Path,
    config: &'a Config,
    references: Vec<String>,
    bleu: BleuOptions,
}

impl<'a> Preparation<'a> {
    /// Makes sure that the config can be trained with and scored, and that `dir` is free or has this
    /// proof. `scores` says which scores decide what is cleaned, too.
    ///
    /// # Errors
    /// It cannot, or something else is there (exit code 2); the text cannot be read.
    pub(super) fn new(
        args: &'a ProveArgs,
        dir: &'a Path,
        text: &'a Pairs,
        scores: &str,
    ) -> anyhow::Result<Self> {
        let config = check(text)?;
        let valid = Corpus::open(&config.data, config.content(), Split::Valid)?;
        let mut hashes = vec![text.corpus.content_hash()?, valid.content_hash()?];
        for prefix in &args.compare {
            hashes.push(open_external(config, prefix)?.content_hash()?);
        }
        let settings = format!(
            "# {} steps, text {}, scores {scores}, rules {CLEAN_VERSION}\n{}",
            args.steps,
            sha256(&hashes.concat()),
            config.to_toml()?
        );
        begin(dir, &settings)?;
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
        mut cleaning: Cleaning,
        json: bool,
    ) -> anyhow::Result<u8> {
        let variants = self.variants(&finish(&cleaning, &text.corpus, None)?)?;
        let mut pairs = Vec::new();
        for variant in &variants {
            let dir = self.dir.join(&variant.name);
            pairs.push(match &variant.origin {
                Origin::Without(groups) => {
                    cleaning.leave_out(groups.iter().copied());
                    write_text(&dir, &text.corpus, &text.languages, &cleaning)?
                }
                Origin::External(prefix) => {
                    let corpus = open_external(self.config, prefix)?;
                    let mut cleaning = look(&corpus, held_out)?;
                    cleaning.leave_out(filters());
                    write_text(&dir, &corpus, &text.languages, &cleaning)?
                }
            });
        }
        let Some(seeds) = self.train(&variants)? else {
            tracing::info!("stopped; the same command continues");
            return Ok(STOPPED);
        };
        let mut outcomes: Vec<(Outcome, Statistics)> = Vec::new();
        for ((variant, pairs), seeds) in variants.iter().zip(pairs).zip(&seeds) {
            let cleaned = outcomes.first();
            let outcome = Outcome::new(&variant.name, pairs, &self.bleu, seeds, cleaned)?;
            outcomes.push(outcome);
        }
        let proof = Proof {
            steps: self.args.steps,
            seeds: self.args.seeds,
            pairs: cleaning.report().pairs,
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

    /// The texts to train on: the cleaned one first, the one that nothing has cleaned, one without
    /// each group that changes enough pairs, and those of `--compare`.
    ///
    /// # Errors
    /// No group changes the text, or a text of `--texts` is none of these (exit code 2).
    fn variants(&self, report: &Report) -> anyhow::Result<Vec<Variant>> {
        let without = |name: &str, groups: Vec<Group>| Variant {
            name: name.to_owned(),
            origin: Origin::Without(groups),
        };
        let groups = groups_that_change(report);
        ensure!(
            !groups.is_empty() || !self.args.compare.is_empty(),
            usage(anyhow!(
                "there is nothing to prove: no group of filters changes half a percent of this text"
            ))
        );
        let mut compared = vec![without(AS_IT_WAS, filters().collect())];
        for group in groups {
            compared.push(without(&format!("{WITHOUT}{}", group.name()), vec![group]));
        }
        let requested = &self.args.texts;
        let names: Vec<&str> = compared.iter().map(|variant| &*variant.name).collect();
        if let Some(unknown) = requested
            .iter()
            .find(|name| !names.contains(&name.as_str()))
        {
            let error = anyhow!("`{unknown}` would hardly differ from the cleaned text");
            let hint = format!("the texts of this proof are {}", names.join(", "));
            return Err(with_hint(usage(error), hint));
        }
        if !requested.is_empty() {
            compared.retain(|variant| requested.contains(&variant.name));
        }
        let mut variants = vec![without("cleaned", Vec::new())];
        variants.append(&mut compared);
        for (number, prefix) in (1..).zip(&self.args.compare) {
            variants.push(Variant {
                name: format!("external-{number}"),
                origin: Origin::External(prefix.clone()),
            });
        }
        Ok(variants)
    }

    /// Trains on all texts with one seed after the other, so that each has been trained on early.
    /// Returns what BLEU counts in the translations of each seed, for each text; `None` if it was
    /// interrupted.
    fn train(&self, variants: &[Variant]) -> anyhow::Result<Option<Vec<Vec<Statistics>>>> {
        let signals = Signals::install()?;
        let total = (self.args.seeds * variants.len()) as u64;
        let mut pace = Pace::from(0);
        let mut done = 0;
        let mut seeds: Vec<Vec<Statistics>> = vec![Vec::new(); variants.len()];
        for seed in 1..=self.args.seeds as u64 {
            for (variant, seeds) in variants.iter().zip(&mut seeds) {
                let training = SeedTraining {
                    proof: self,
                    dir: self.dir.join(&variant.name),
                    seed,
                };
                done += 1;
                let earlier = training.earlier()?;
                let is_new = earlier.is_none();
                let lines = match earlier {
                    Some(lines) => Some(lines),
                    None => training.run(&signals)?,
                };
                let Some(lines) = lines else {
                    return Ok(None);
                };
                let counts = count(&self.bleu, &lines, &self.references)?;
                if is_new {
                    let score = score(&self.bleu, &counts);
                    let left = pace.time_left(done, total);
                    let name = &variant.name;
                    tracing::info!(
                        "{done} of {total}: {name}, seed {seed}: {score:.2} BLEU; left {left}"
                    );
                } else {
                    // What was done before says nothing of the pace.
                    pace = Pace::from(done);
                }
                seeds.push(counts);
            }
        }
        Ok(Some(seeds))
    }
}

/// Reads the name of a text to compare with.
fn text_name(name: &str) -> Result<String, String> {
    let groups = || filters().map(|group| format!("{WITHOUT}{}", group.name()));
    if name == AS_IT_WAS || groups().any(|group| group == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<String> = groups().collect();
    Err(format!("the texts are {AS_IT_WAS}, {}", names.join(", ")))
}

/// Opens a text that another program has cleaned.
fn open_external(config: &Config, prefix: &Path) -> anyhow::Result<Corpus> {
    let mut data = config.data.clone();
    data.train = Some(TrainFiles::One(prefix.to_owned()));
    data.clean = false;
    Ok(Corpus::open(&data, Content::PAIRS, Split::Train)?)
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

/// The groups of filters that a proof is about: all but those for held-out sentences, which are in no
/// text.
fn filters() -> impl Iterator<Item = Group> {
    Group::ALL
        .into_iter()
        .filter(|group| *group != Group::HeldOut)
}

/// The groups that change enough pairs for a training without them.
fn groups_that_change(report: &Report) -> Vec<Group> {
    let changed = changed(report);
    let pairs = report.counts.pairs.max(1) as f64;
    filters()
        .filter(|group| {
            let count = changed.get(group).copied().unwrap_or(0);
            count as f64 >= MIN_CHANGED_SHARE * pairs
        })
        .collect()
}

/// How many pairs each group changes or removes.
fn changed(report: &Report) -> BTreeMap<Group, u64> {
    let mut changed: BTreeMap<Group, u64> = BTreeMap::new();
    for reason in reasons() {
        let removed = report.counts.removed.get(reason.key).copied();
        *changed.entry(Group::for_reason(reason)).or_default() += removed.unwrap_or(0);
    }
    for (&repair, count) in &report.counts.repaired {
        let group = match repair {
            "swapped" => Group::Language,
            _ => Group::Repairs,
        };
        *changed.entry(group).or_default() += count;
    }
    changed
}

/// Makes the directory of a proof, or makes sure that the proof with these settings was begun there.
///
/// # Errors
/// Something else is there (exit code 2).
fn begin(dir: &Path, settings: &str) -> anyhow::Result<()> {
    let path = dir.join(SETTINGS);
    if path.exists() {
        if fs::read_to_string(&path)? == settings {
            return Ok(());
        }
        let error = anyhow!(
            "the proof in `{}` was begun with another text or config, or other options",
            dir.display()
        );
        return Err(with_hint(
            usage(error),
            "give another directory with `--out`",
        ));
    }
    file::remove_unfinished(dir, |name| name == SETTINGS)
        .with_context(|| format!("cannot clear `{}`", dir.display()))?;
    check_free(dir)?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    file::replace(&path, settings.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))
}

/// Writes the text of a variant, unless it is there, and returns how many pairs it has.
fn write_text(
    dir: &Path,
    corpus: &Corpus,
    languages: &[String; 2],
    cleaning: &Cleaning,
) -> anyhow::Result<u64> {
    let pairs = cleaning.report().kept;
    // The last file that is written.
    if dir.join("report.json").exists() {
        return Ok(pairs);
    }
    // What a process left that was killed.
    file::remove_unfinished(dir, |name| {
        ["train.", "removed.", "report."]
            .iter()
            .any(|beginning| name.starts_with(beginning))
    })
    .with_context(|| format!("cannot clear `{}`", dir.display()))?;
    let files = CleanFiles::create(dir, languages)?;
    finish(cleaning, corpus, Some(files))?;
    Ok(pairs)
}

/// A training on one text with one seed.
struct SeedTraining<'a> {
    proof: &'a Preparation<'a>,
    /// Where its text is.
    dir: PathBuf,
    seed: u64,
}

impl SeedTraining<'_> {
    /// The file of the translations.
    fn path(&self) -> PathBuf {
        self.dir.join(format!("seed-{}.txt", self.seed))
    }

    /// The translations, if an earlier command has made them.
    fn earlier(&self) -> anyhow::Result<Option<Vec<String>>> {
        let path = self.path();
        if !path.exists() {
            return Ok(None);
        }
        let lines: Vec<String> = Lines::open(&path)?.collect::<Result<_, _>>()?;
        Ok((lines.len() == self.proof.references.len()).then_some(lines))
    }

    /// Trains, and translates the validation set; `None` if it was interrupted.
    fn run(&self, signals: &Signals) -> anyhow::Result<Option<Vec<String>>> {
        let mut progress = Progress::new(Screen::Lines);
        let run = self.dir.join(format!("run-{}", self.seed));
        let config = self.config();
        let mut training = Training::prepare_among(&alone(), config, None, run, &mut progress)?;
        signals.save_from_now_on();
        let (ending, _) = training.run(&signals.stop, &mut progress)?;
        // What follows saves nothing.
        signals.end_process_from_now_on();
        drop(progress);
        if ending == Ending::Stopped {
            return Ok(None);
        }
        let Training { run, plan, .. } = &training;
        let runner = runner(vec![run.load("last", &plan.device)?], plan)?;
        let corpus = run.open_set(&plan.config, Split::Valid)?;
        let tokenizer = self.proof.bleu.tokenizer.clone();
        let lines = evaluate(&runner, &HeldOut::read(&corpus)?, &tokenizer.into())?.hypotheses;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let path = self.path();
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Some(lines))
    }

    /// The config of the training: the user's, on this text, for fewer steps.
    fn config(&self) -> Config {
        let steps = self.proof.args.steps as u64;
        let mut config = self.proof.config.clone();
        config.seed = self.seed;
        config.data.train = Some(TrainFiles::One(self.dir.join("train")));
        config.data.test = None;
        let train = &mut config.train;
        train.max_steps = Some(steps);
        train.max_epochs = None;
        train.patience = 0;
        train.warmup_steps = train.warmup_steps.min(steps.div_ceil(4));
        train.save_every = train.save_every.min(steps);
        train.validate_every = steps;
        train.log_every = steps.div_ceil(5);
        config
    }
}
