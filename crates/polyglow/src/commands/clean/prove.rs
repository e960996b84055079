//! `--prove`: what each group of filters is worth, in BLEU, by training with and without it.
//!
//! Every training has the same config and the same number of steps; only its text differs. Its best
//! checkpoint translates the validation set, and translations are compared by paired bootstrap
//! resampling (Koehn, 2004). Held-out sentences are removed in all of them: a model that has seen
//! the validation set would score too high, and leaving them in would look like a gain.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use polyglow_data::clean::cleaning::{Cleaning, reasons};
use polyglow_data::clean::group::Group;
use polyglow_data::config::{Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::file;
use polyglow_data::lines::Lines;
use polyglow_metrics::significance::{DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, paired_bootstrap};
use polyglow_metrics::{BleuOptions, Metric, Score, Statistics, segment_statistics};
use polyglow_predict::group::alone;
use polyglow_train::config::Config;
use polyglow_train::run::runner;
use polyglow_train::tasks::{HeldOut, evaluate};
use polyglow_train::train::{Ending, Training};
use serde::Serialize;

use super::super::counts;
use super::super::pairs::Pairs;
use super::{CleanFiles, Report, check_free, finish};
use crate::activity::Pace;
use crate::failure::{STOPPED, usage, with_hint};
use crate::progress::{Progress, Screen};
use crate::signals::Signals;

/// The share of the pairs that a group has to change for a training without it.
const LEAST: f64 = 0.005;
/// The probability below which a difference is called one.
const SIGNIFICANT: f64 = 0.05;

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
}

/// A text to train on.
struct Variant {
    /// What it is called in reports, and its directory.
    name: String,
    /// The groups whose filters are left out.
    left_out: Vec<Group>,
}

/// What all trainings showed.
#[derive(Serialize)]
struct Proof {
    steps: usize,
    seeds: usize,
    /// Pairs of the text before it is cleaned.
    pairs: u64,
    texts: Vec<Outcome>,
}

/// What the trainings on one text showed.
#[derive(Serialize)]
struct Outcome {
    name: String,
    /// Pairs of the text.
    pairs: u64,
    /// BLEU on the validation set, for each seed.
    bleu: Vec<f64>,
    mean_bleu: f64,
    /// How much better the cleaned text is.
    gain: f64,
    /// The probability of a difference at least this great if both texts were as good.
    p_value: f64,
}

/// Trains with and without each group of filters, and prints what each is worth. Returns the exit
/// code: 0 at the end, [`STOPPED`] where the same command continues.
///
/// # Errors
/// There is no config with a validation set (exit code 2); a training fails; a file cannot be written.
pub(super) fn prove(
    args: &ProveArgs,
    dir: &Path,
    text: &Pairs,
    mut cleaning: Cleaning,
    json: bool,
) -> anyhow::Result<u8> {
    let config = check(text)?;
    begin(dir, config, args)?;
    let variants = variants(&finish(&cleaning, &text.corpus, None)?)?;
    let references = HeldOut::read(&Corpus::open(&config.data, config.content(), Split::Valid)?)?;
    let references: Vec<&str> = references.pairs().iter().map(|pair| &*pair.tgt).collect();
    let bleu = BleuOptions {
        tokenizer: config.train.bleu_tokenizer(references.iter().copied())?,
        ..BleuOptions::default()
    };
    let signals = Signals::install()?;
    signals.save_from_now_on();
    let total = (args.seeds * variants.len()) as u64;
    let (mut done, mut pace) = (0, Pace::from(0));
    let mut translations: Vec<Vec<String>> = vec![Vec::new(); variants.len()];
    let mut pairs = Vec::new();
    for variant in &variants {
        cleaning.leave_out(variant.left_out.iter().copied());
        pairs.push(cleaning.report().kept);
        write_text(&dir.join(&variant.name), text, &cleaning)?;
    }
    // All texts with one seed first, so that a proof that is ended early has said something of each.
    for seed in 1..=args.seeds as u64 {
        for (variant, translations) in variants.iter().zip(&mut translations) {
            let one = One {
                config,
                dir: dir.join(&variant.name),
                steps: args.steps as u64,
                seed,
                bleu: &bleu,
            };
            done += 1;
            let lines = if let Some(lines) = one.earlier()? {
                // What was done before says nothing of the pace.
                pace = Pace::from(done);
                lines
            } else if let Some(lines) = one.train(&signals)? {
                let score = score(&bleu, &lines, &references)?;
                let left = pace.time_left(done, total);
                let name = &variant.name;
                tracing::info!(
                    "{done} of {total}: {name}, seed {seed}: {score:.2} BLEU; left {left}"
                );
                lines
            } else {
                return Ok(STOPPED);
            };
            translations.extend(lines);
        }
    }
    let texts = compare(&variants, &pairs, &translations, &references, &bleu)?;
    let proof = Proof {
        steps: args.steps,
        seeds: args.seeds,
        pairs: cleaning.report().pairs,
        texts,
    };
    let report = serde_json::to_string_pretty(&proof)? + "\n";
    file::replace(&dir.join("proof.json"), report.as_bytes())
        .with_context(|| format!("cannot write into `{}`", dir.display()))?;
    let mut out = io::stdout().lock();
    if json {
        out.write_all(report.as_bytes())?;
    } else {
        print(&mut out, &proof)?;
    }
    Ok(0)
}

/// Returns the config, if it has what a proof needs.
///
/// # Errors
/// There is no config, or no validation set (exit code 2).
fn check(text: &Pairs) -> anyhow::Result<&Config> {
    let error = anyhow!("`--prove` trains models, and scores them on a validation set");
    let Some(config) = &text.config else {
        let hint = "give a config in place of `--src` and `--tgt`; `polyglow new` writes one";
        return Err(with_hint(usage(error), hint));
    };
    if !config.data.has_valid() {
        let hint = "add `valid` to the config's table `[data]`";
        return Err(with_hint(usage(error), hint));
    }
    Ok(config)
}

/// The texts to train on: the cleaned one first, the one that nothing has cleaned, and one without each
/// group that does something.
fn variants(report: &Report) -> anyhow::Result<Vec<Variant>> {
    let changed = changed(report);
    let pairs = report.counts.pairs.max(1) as f64;
    let all: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| *group != Group::HeldOut)
        .collect();
    let changes_enough = |group: &Group| {
        let count = changed.get(group).copied().unwrap_or(0);
        count as f64 >= LEAST * pairs
    };
    let groups: Vec<Group> = all.iter().copied().filter(changes_enough).collect();
    ensure!(
        !groups.is_empty(),
        usage(anyhow!(
            "there is nothing to prove: no group of filters changes half a percent of this text"
        ))
    );
    let variant = |name: String, left_out: &[Group]| Variant {
        name,
        left_out: left_out.to_vec(),
    };
    let mut variants = vec![
        variant("cleaned".to_owned(), &[]),
        variant("as-it-was".to_owned(), &all),
    ];
    if groups.len() > 1 {
        let each = groups
            .iter()
            .map(|group| variant(format!("without-{}", group.name()), &[*group]));
        variants.extend(each);
    }
    Ok(variants)
}

/// How many pairs each group changes or removes.
fn changed(report: &Report) -> BTreeMap<Group, u64> {
    let mut changed: BTreeMap<Group, u64> = BTreeMap::new();
    for reason in reasons() {
        let removed = report.counts.removed.get(reason.key).copied();
        *changed.entry(Group::of(reason)).or_default() += removed.unwrap_or(0);
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

/// Makes the directory of a proof, or makes sure that this proof was begun there.
///
/// # Errors
/// Something else is there (exit code 2).
fn begin(dir: &Path, config: &Config, args: &ProveArgs) -> anyhow::Result<()> {
    let path = dir.join("proof.toml");
    let settings = format!("# {} steps\n{}", args.steps, config.to_toml()?);
    if path.exists() {
        let earlier = fs::read_to_string(&path)?;
        if earlier == settings {
            return Ok(());
        }
        let error = anyhow!(
            "the proof in `{}` was begun with another config or another `--steps`",
            dir.display()
        );
        return Err(with_hint(
            usage(error),
            "give another directory with `--out`",
        ));
    }
    check_free(dir)?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
    file::replace(&path, settings.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))
}

/// Writes the text of a variant, unless it is there.
fn write_text(dir: &Path, text: &Pairs, cleaning: &Cleaning) -> anyhow::Result<()> {
    // The last file that is written.
    if dir.join("report.json").exists() {
        return Ok(());
    }
    let files = CleanFiles::create(dir, &text.languages)?;
    finish(cleaning, &text.corpus, Some(files)).map(drop)
}

/// One training.
struct One<'a> {
    config: &'a Config,
    dir: PathBuf,
    steps: u64,
    seed: u64,
    /// How translations are scored.
    bleu: &'a BleuOptions,
}

impl One<'_> {
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
        Ok(Some(Lines::open(&path)?.collect::<Result<_, _>>()?))
    }

    /// Trains, and translates the validation set; `None` if it was interrupted.
    fn train(&self, signals: &Signals) -> anyhow::Result<Option<Vec<String>>> {
        let mut progress = Progress::new(Screen::Lines);
        let run = self.dir.join(format!("run-{}", self.seed));
        let config = self.config();
        let mut training = Training::prepare_among(&alone(), config, None, run, &mut progress)?;
        let (ending, _) = training.run(&signals.stop, &mut progress)?;
        drop(progress);
        if ending == Ending::Stopped {
            tracing::info!("stopped; the same command continues");
            return Ok(None);
        }
        let Training { run, plan, .. } = &training;
        let runner = runner(vec![run.load("best", &plan.device)?], plan)?;
        let corpus = run.open_set(&plan.config, Split::Valid)?;
        // The scores are not looked at: all texts are scored together at the end.
        let held_out = HeldOut::read(&corpus)?;
        let evaluation = evaluate(&runner, &held_out, &self.bleu.tokenizer.clone().into())?;
        let lines = evaluation.hypotheses;
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let path = self.path();
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Some(lines))
    }

    /// The config of the training: the user's, on this text, for fewer steps.
    fn config(&self) -> Config {
        let mut config = self.config.clone();
        config.seed = self.seed;
        config.data.corpus = None;
        config.data.train = Some(TrainFiles::One(self.dir.join("train")));
        config.data.test = None;
        let train = &mut config.train;
        train.max_steps = Some(self.steps);
        train.max_epochs = None;
        train.patience = 0;
        train.warmup_steps = train.warmup_steps.min(self.steps.div_ceil(4));
        train.save_every = self.steps;
        train.validate_every = self.steps;
        train.log_every = self.steps.div_ceil(5);
        config
    }
}

/// What BLEU counts in each line.
fn count(bleu: &BleuOptions, lines: &[String], references: &[&str]) -> anyhow::Result<Statistics> {
    let repeated = lines.len() / references.len().max(1);
    let references: Vec<&str> = references
        .iter()
        .copied()
        .cycle()
        .take(repeated * references.len())
        .collect();
    Ok(segment_statistics(bleu, lines, &[references])?)
}

/// BLEU of the translations of one training.
fn score(bleu: &BleuOptions, lines: &[String], references: &[&str]) -> anyhow::Result<f64> {
    Ok(bleu.score(&count(bleu, lines, references)?.sum()).value())
}

/// Compares each text with the cleaned one, which is the first.
fn compare(
    variants: &[Variant],
    pairs: &[u64],
    translations: &[Vec<String>],
    references: &[&str],
    bleu: &BleuOptions,
) -> anyhow::Result<Vec<Outcome>> {
    let statistics: Vec<Statistics> = translations
        .iter()
        .map(|lines| count(bleu, lines, references))
        .collect::<Result<_, _>>()?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let scores: Vec<f64> = translations[index]
            .chunks(references.len())
            .map(|lines| score(bleu, lines, references))
            .collect::<Result<_, _>>()?;
        let mean_bleu = scores.iter().sum::<f64>() / scores.len() as f64;
        let cleaned = outcomes.first().map_or(mean_bleu, |first| first.mean_bleu);
        let p_value = if index == 0 {
            1.0
        } else {
            let samples = DEFAULT_BOOTSTRAP_SAMPLES;
            let [cleaned, other] = [&statistics[0], &statistics[index]];
            paired_bootstrap(bleu, cleaned, other, samples, DEFAULT_SEED)?.p_value
        };
        outcomes.push(Outcome {
            name: variant.name.clone(),
            pairs: pairs[index],
            bleu: scores,
            mean_bleu,
            gain: cleaned - mean_bleu,
            p_value,
        });
    }
    Ok(outcomes)
}

/// Prints a line for each text, and what follows.
fn print(out: &mut impl Write, proof: &Proof) -> io::Result<()> {
    let Proof { steps, seeds, .. } = proof;
    writeln!(
        out,
        "BLEU on the validation set after {steps} steps, {seeds} seeds; held-out sentences are removed from all"
    )?;
    writeln!(
        out,
        "\n{:<20} {:>10} {:>7} {:>12} {:>7}",
        "text", "pairs", "BLEU", "cleaned text", "p"
    )?;
    for (index, outcome) in proof.texts.iter().enumerate() {
        let Outcome {
            name,
            pairs,
            mean_bleu,
            gain,
            p_value,
            ..
        } = outcome;
        write!(out, "{name:<20} {pairs:>10} {mean_bleu:>7.2}")?;
        if index > 0 {
            write!(out, " {gain:>+12.2} {p_value:>7.3}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    for outcome in &proof.texts[1..] {
        let Some(group) = outcome.name.strip_prefix("without-") else {
            continue;
        };
        if outcome.gain < 0.0 && outcome.p_value < SIGNIFICANT {
            writeln!(
                out,
                "`{group}` hurts this text: clean it with `--without {group}`"
            )?;
        }
    }
    Ok(())
}
