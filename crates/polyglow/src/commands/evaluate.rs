//! `polyglow evaluate`: the scores of a trained model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use clap::Args;
use polyglow_data::alignment::{Link, LinkLines};
use polyglow_data::config::{GOLD, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::lines::Lines;
use polyglow_data::pair::Pair;
use polyglow_predict::TaskFacts;
use polyglow_predict::evaluation::{Evaluation, EvaluationOptions, Scores};
use polyglow_predict::group::Group;
use polyglow_predict::measures;
use polyglow_predict::runner::Runner;
use polyglow_predict::scoring::TranslationScores;
use polyglow_predict::suggestion::nearest;
use polyglow_predict::tasks::labels::confusion::{LabelScores, write_labels};
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::{RunDirectory, runner};
use polyglow_train::tasks::captions::{Pointing, pointing};
use polyglow_train::tasks::language::{NgramScores, ngram_scores};
use polyglow_train::tasks::translation::alignment::{align, error_rate};
use polyglow_train::tasks::{HeldOut, evaluate, held_out_span};
use serde::Serialize;

use super::model::{LanguageArgs, ModelArgs};
use super::uses::check_attends;
use crate::activity::Activity;
use crate::failure::{usage, with_hint};

/// The arguments of `polyglow evaluate`.
#[derive(Args)]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    languages: LanguageArgs,
    /// The set to score: `train`, `valid`, `test`, or a name of `[data.test]`
    #[arg(long, value_name = "NAME", default_value = "test")]
    split: String,
    /// Also report how well attention agrees with gold alignments: a file in the Pharaoh format,
    /// one pair per line, or `gold` for an embedded corpus; of captions how often words look at the
    /// shapes that they are about
    #[arg(long, value_name = "FILE")]
    alignments: Option<PathBuf>,
    /// Print the scores as JSON
    #[arg(long)]
    json: bool,
}

/// The scores, and what they are of.
#[derive(Serialize)]
struct Report<'a> {
    /// The directory of the checkpoint.
    checkpoint: PathBuf,
    /// The other checkpoints of an ensemble.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ensemble: Vec<PathBuf>,
    /// The step that its weights are from.
    step: u64,
    split: &'a str,
    sentences: usize,
    beam_size: usize,
    #[serde(flatten)]
    scores: &'a Scores,
    /// For comparison with a language model: an n-gram model.
    #[serde(skip_serializing_if = "Option::is_none")]
    ngram: Option<NgramScores>,
    /// The scores of each label, if the model gives labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<LabelScores>,
    /// The rate of each decoder layer's attention, from the lowest layer, if there is a gold
    /// alignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_error_rates: Option<Vec<f64>>,
    /// The shares, by decoder layer, of words of captions that look at what they are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointing: Option<Pointing>,
    /// Decides which scores are printed.
    #[serde(skip)]
    facts: &'static TaskFacts,
}

/// Scores a set and prints the scores to stdout, as lines or as one JSON object.
///
/// # Errors
/// There is no such run, checkpoint, device or set (exit code 2); the set cannot be read.
pub(crate) fn run(args: &EvaluateArgs, group: &Arc<dyn Group>) -> anyhow::Result<()> {
    let plan = args.model.open_for(&args.languages, Arc::clone(group))?;
    let search = args.model.search(&plan, 1)?;
    let config = &plan.config;
    let split = find_split(config, &args.split)?;
    args.languages.check_set(&args.model, config, split)?;
    let mut corpus = RunDirectory::existing(&args.model.run)?.open_set(config, split)?;
    if split == Split::Train {
        let directions = config.data.directions();
        if let Some(direction) = directions.first() {
            corpus = corpus.in_direction(direction);
        }
        if corpus.parts().is_empty() {
            return Err(usage(anyhow!(
                "no text of the training is in these languages"
            )));
        }
    }
    let held_out = HeldOut::read(&corpus)?;
    let pairs = held_out.pairs();
    let points = scores_pointing(args.alignments.as_deref(), &plan)?;
    let links = args.alignments.as_deref().filter(|_| !points);
    let gold = links
        .map(|path| gold(path, config, &args.split, pairs))
        .transpose()?;
    let bleu = config
        .train
        .bleu_tokenizer(pairs.iter().map(|pair| pair.tgt.as_str()))?;
    let trained = args.model.load(&plan)?;
    if gold.is_some() || points {
        check_attends(&trained[0])?;
    }
    let mut checkpoints = trained.iter().map(|model| model.checkpoint.path.clone());
    let checkpoint = checkpoints.next().unwrap_or_default();
    let ensemble = checkpoints.collect();
    let step = trained[0].checkpoint.state.step;
    let runner = runner(trained, &plan)?;
    let options = EvaluationOptions { bleu, search };
    let mut activity = Activity::new();
    activity.show(format!("testing on {} examples", held_out.len()));
    let Evaluation {
        scores,
        labels,
        num_scored,
        ..
    } = held_out_span(&corpus).in_scope(|| evaluate(&runner, &held_out, &options))?;
    // The n-gram model is counted on the host, so that one rank does it for all.
    let ngram = if runner.task.facts().generates() && group.is_first() {
        ngram_model(&plan, &runner, pairs, &mut activity)?
    } else {
        None
    };
    let alignment_error_rates = gold
        .map(|gold| error_rates(&runner, pairs, &gold))
        .transpose()?;
    let pointing = points.then(|| pointing(&runner, pairs)).transpose()?;
    drop(activity);
    let report = Report {
        checkpoint,
        ensemble,
        step,
        split: &args.split,
        sentences: num_scored,
        beam_size: runner.search_for(&options.search)?.beam_size,
        scores: &scores,
        ngram,
        labels,
        alignment_error_rates,
        pointing,
        facts: runner.task.facts(),
    };
    if group.is_first() {
        write(&report, args.json)
    } else {
        Ok(())
    }
}

/// Whether it is scored where the words of captions look, which is known of generated pictures.
fn scores_pointing(alignments: Option<&Path>, plan: &Plan) -> anyhow::Result<bool> {
    let Some(alignments) = alignments.filter(|_| plan.task.facts().describes_images()) else {
        return Ok(false);
    };
    if alignments != Path::new(GOLD) || plan.config.data.corpus.is_none() {
        let error = usage(anyhow!(
            "where the words of captions should look is known of generated pictures alone"
        ));
        return Err(with_hint(
            error,
            "give `--alignments gold` for a run of `captioned-shapes`, or leave it out",
        ));
    }
    Ok(true)
}

/// The scores of an n-gram model of the training text; none, with a warning, where that text is
/// missing.
fn ngram_model(
    plan: &Plan,
    runner: &Runner,
    pairs: &[Pair],
    activity: &mut Activity,
) -> anyhow::Result<Option<NgramScores>> {
    // Of a run that was moved: the training text is not kept with it.
    let opened = Corpus::open(&plan.config.data, plan.content, Split::Train);
    if let Err(error @ DataError::MissingFile { .. }) = opened {
        tracing::warn!("{error}: there is no n-gram model to compare with");
        return Ok(None);
    }
    activity.show("counting n-grams of the training text".to_owned());
    Ok(Some(ngram_scores(plan, &runner.tgt, pairs)?))
}

/// The set of that name.
fn find_split<'a>(config: &Config, name: &'a str) -> anyhow::Result<Split<'a>> {
    let mut known = vec!["train"];
    known.extend(config.data.has_valid().then_some("valid"));
    known.extend(config.data.test_names());
    if !known.contains(&name) {
        let error = usage(anyhow!(
            "the run's config has no set `{name}`; there is {}",
            known.join(", ")
        ));
        return Err(match nearest(name, known) {
            Some(known) => with_hint(error, format!("did you mean `{known}`?")),
            None => with_hint(error, "name one of these with `--split`"),
        });
    }
    Ok(match name {
        "train" => Split::Train,
        "valid" => Split::Valid,
        name => Split::Test(name),
    })
}

/// The gold links of every pair.
fn gold(
    path: &Path,
    config: &Config,
    split: &str,
    pairs: &[Pair],
) -> anyhow::Result<Vec<Vec<Link>>> {
    if path == Path::new(GOLD) {
        let toy = config.data.toy();
        let Some(aligned) = toy.and_then(|toy| toy.split(split)) else {
            let error = usage(anyhow!(
                "`--alignments gold`: only an embedded corpus has gold alignments"
            ));
            return Err(with_hint(
                error,
                "give a file of links in the Pharaoh format, `0-0 1-2`, one pair per line",
            ));
        };
        return Ok(aligned.into_iter().map(|pair| pair.alignment).collect());
    }
    read_links(path, pairs)
}

/// Reads the links of every pair from a file, and checks that they are of these pairs.
///
/// # Errors
/// It cannot be read, has no links, or not as many lines as there are pairs; a link is of a word
/// that its pair does not have.
fn read_links(path: &Path, pairs: &[Pair]) -> anyhow::Result<Vec<Vec<Link>>> {
    let gold: Vec<Vec<Link>> = LinkLines(Lines::open(path)?).collect::<Result<_, _>>()?;
    ensure!(
        gold.iter().any(|links| !links.is_empty()),
        "`{}` has no links",
        path.display()
    );
    ensure!(
        gold.len() == pairs.len(),
        "`{}` has {} lines, but the set has {} pairs",
        path.display(),
        gold.len(),
        pairs.len()
    );
    for (number, (pair, links)) in (1..).zip(pairs.iter().zip(&gold)) {
        let src = pair.src.split_whitespace().count();
        let tgt = pair.tgt.split_whitespace().count();
        if let Some((left, right)) = links.iter().find(|link| link.0 >= src || link.1 >= tgt) {
            let path = path.display();
            bail!(
                "`{path}` line {number}: `{left}-{right}` is beyond the pair's {src} and {tgt} words"
            );
        }
    }
    Ok(gold)
}

/// The alignment error rate of every decoder layer, from the lowest.
fn error_rates(runner: &Runner, pairs: &[Pair], gold: &[Vec<Link>]) -> anyhow::Result<Vec<f64>> {
    let links = align(runner, pairs)?;
    let num_layers = links.first().map_or(0, Vec::len);
    Ok((0..num_layers)
        .map(|layer| error_rate(links.iter().map(|layers| &layers[layer]), gold))
        .collect())
}

fn write(report: &Report<'_>, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(report)?)?);
    }
    write_set(report, &mut out)?;
    let scores = report.scores;
    if let Some(accuracy) = scores.accuracy.filter(|_| report.facts.gives_labels()) {
        writeln!(out, "accuracy        {accuracy:.4}")?;
        writeln!(out, "loss            {:.4}   nats per example", scores.loss)?;
        return Ok(write_labels(&mut out, &report.labels)?);
    }
    if let Some(accuracy) = scores.accuracy {
        writeln!(
            out,
            "accuracy        {accuracy:.4}   a context word scores above all drawn words"
        )?;
        return Ok(writeln!(
            out,
            "loss            {:.4}   nats per word, real or drawn",
            scores.loss
        )?);
    }
    write_losses(report, &mut out)?;
    if !report.labels.is_empty() {
        write_labels(&mut out, &report.labels)?;
    }
    Ok(write_attention(report, &mut out)?)
}

/// Writes which model was scored on which set, and the scores of its translations or captions.
fn write_set(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report {
        checkpoint,
        ensemble,
        step,
        split,
        sentences,
        beam_size,
        scores,
        facts,
        ..
    } = report;
    let examples = facts.examples;
    writeln!(
        out,
        "checkpoint      {}   step {step}",
        checkpoint.display()
    )?;
    for other in ensemble {
        writeln!(out, "with            {}", other.display())?;
    }
    if let Some(count) = scores.truncated {
        writeln!(
            out,
            "read in part    {count}   longer than the model; what is scored is their beginning"
        )?;
    }
    match &scores.translations {
        None => writeln!(out, "split           {split}   {sentences} {examples}")?,
        Some(TranslationScores {
            bleu,
            chrf,
            exact_match,
            signatures,
        }) => {
            writeln!(
                out,
                "split           {split}   {sentences} {examples}, beam {beam_size}"
            )?;
            writeln!(out, "BLEU            {bleu:.2}   {}", signatures.bleu)?;
            writeln!(out, "chrF            {chrf:.2}   {}", signatures.chrf)?;
            writeln!(out, "exact match     {exact_match:.4}")?;
        }
    }
    Ok(())
}

/// Writes the losses of a model of tokens, and below them those of the n-gram model.
fn write_losses(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report { scores, ngram, .. } = report;
    if let Some(accuracy) = scores.token_accuracy {
        writeln!(out, "token accuracy  {accuracy:.4}")?;
    }
    for (key, value) in &scores.others {
        writeln!(out, "{:<15} {value:.4}", measures::title(key))?;
    }
    writeln!(
        out,
        "loss            {:.4}   nats per target token",
        scores.loss
    )?;
    writeln!(out, "perplexity      {:.4}", scores.perplexity)?;
    if let Some(bits) = scores.bits_per_byte {
        writeln!(out, "bits per byte   {bits:.4}")?;
    }
    if let Some(NgramScores {
        order,
        perplexity,
        bits_per_byte,
    }) = ngram
    {
        writeln!(
            out,
            "\na {order}-gram model of the same tokens and training text (modified Kneser-Ney):"
        )?;
        writeln!(out, "perplexity      {perplexity:.4}")?;
        writeln!(out, "bits per byte   {bits_per_byte:.4}")?;
    }
    Ok(())
}

/// Writes how well attention agrees with alignments and with what captions are about.
fn write_attention(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report {
        alignment_error_rates,
        pointing,
        ..
    } = report;
    for (layer, rate) in (1..).zip(alignment_error_rates.iter().flatten()) {
        writeln!(out, "AER             {rate:.4}   decoder layer {layer}")?;
    }
    if let Some(Pointing {
        layers,
        chance,
        words,
    }) = pointing
    {
        for (layer, share) in (1..).zip(layers) {
            writeln!(
                out,
                "points right    {share:.4}   decoder layer {layer}; by chance {chance:.4}, of {words} words"
            )?;
        }
    }
    Ok(())
}
