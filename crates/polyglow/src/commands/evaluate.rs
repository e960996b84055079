//! `polyglow evaluate`: the scores of a trained model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure};
use polyglow_data::alignment::{Link, LinkLines};
use polyglow_data::config::{GOLD, Split};
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_data::lines::Lines;
use serde::Serialize;

use super::model::ModelArgs;
use crate::activity::Activity;
use crate::alignment::{align, error_rate};
use crate::config::Config;
use crate::evaluation::{Evaluation, Scores, evaluate};
use crate::failure::{usage, with_hint};
use crate::run_directory::translator;
use crate::suggestion::nearest;
use crate::translate::Translator;

/// What `polyglow evaluate` is asked to do.
#[derive(Clone, Debug)]
pub struct EvaluateArgs {
    /// The model, and how to search.
    pub model: ModelArgs,
    /// The set to score: `train`, `valid`, `test`, or a name of `[data.test]`.
    pub split: String,
    /// File with the gold alignment of each pair in the Pharaoh format, or `gold` for that of an embedded corpus.
    pub alignments: Option<PathBuf>,
    /// Whether to print the scores as JSON.
    pub json: bool,
}

/// The scores, and what they are of.
#[derive(Serialize)]
struct Report<'a> {
    /// The directory of the checkpoint.
    checkpoint: &'a Path,
    /// The checkpoints that decide together with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ensemble: Vec<&'a Path>,
    /// The step that its weights are from.
    step: u64,
    split: &'a str,
    sentences: usize,
    beam_size: usize,
    #[serde(flatten)]
    scores: &'a Scores,
    /// Of each decoder layer's attention, from the lowest layer, if there is a gold alignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment_error_rates: Option<Vec<f64>>,
}

/// Scores a set and prints the scores to stdout, as lines or as one JSON object.
///
/// # Errors
/// There is no such run, checkpoint, device or set (exit code 2); the set cannot be read.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<()> {
    let (config, device) = args.model.open()?;
    let split = find_split(&config, &args.split)?;
    let pairs: Vec<Pair> = Corpus::open(&config.data, split)?.pairs().collect::<Result<_, _>>()?;
    let gold = args.alignments.as_deref().map(|path| gold(path, &config, &args.split, &pairs)).transpose()?;
    let trained = args.model.load(&device)?;
    let translator = translator(&trained, &config, &device)?;
    let mut activity = Activity::new();
    activity.show(format!("translating {} sentences", pairs.len()));
    let Evaluation { scores, .. } = evaluate(&translator, &pairs, config.train.tokenize)?;
    let alignment_error_rates = gold.map(|gold| error_rates(&translator, &pairs, &gold)).transpose()?;
    drop(activity);
    let report = Report {
        checkpoint: &trained[0].checkpoint.path,
        ensemble: trained[1..].iter().map(|other| &*other.checkpoint.path).collect(),
        step: trained[0].checkpoint.state.step,
        split: &args.split,
        sentences: pairs.len(),
        beam_size: config.search.beam_size,
        scores: &scores,
        alignment_error_rates,
    };
    write(&report, args.json)
}

/// The set of that name.
fn find_split<'a>(config: &Config, name: &'a str) -> anyhow::Result<Split<'a>> {
    let mut known = vec!["train"];
    known.extend((config.data.corpus.is_some() || config.data.valid.is_some()).then_some("valid"));
    known.extend(config.data.test_names());
    if !known.contains(&name) {
        let error = usage(anyhow!("the run's config has no set `{name}`; there is {}", known.join(", ")));
        return Err(match nearest(name, known) {
            Some(known) => with_hint(error, format!("did you mean `{known}`?")),
            None => error,
        });
    }
    Ok(match name {
        "train" => Split::Train,
        "valid" => Split::Valid,
        name => Split::Test(name),
    })
}

/// The gold links of every pair.
fn gold(path: &Path, config: &Config, split: &str, pairs: &[Pair]) -> anyhow::Result<Vec<Vec<Link>>> {
    if path == Path::new(GOLD) {
        let toy = config.data.toy();
        let error = || usage(anyhow!("`--alignments gold`: only an embedded corpus brings gold alignments along"));
        let aligned = toy.and_then(|toy| toy.split(split)).ok_or_else(error)?;
        return Ok(aligned.into_iter().map(|pair| pair.alignment).collect());
    }
    let gold: Vec<Vec<Link>> = LinkLines(Lines::open(path)?).collect::<Result<_, _>>()?;
    ensure!(gold.iter().any(|links| !links.is_empty()), "`{}` has no links", path.display());
    let (found, wanted) = (gold.len(), pairs.len());
    ensure!(found == wanted, "`{}` has {found} lines, but the set has {wanted} pairs", path.display());
    for (number, (pair, links)) in (1..).zip(pairs.iter().zip(&gold)) {
        let (src, tgt) = (pair.src.split_whitespace().count(), pair.tgt.split_whitespace().count());
        if let Some((left, right)) = links.iter().find(|link| link.0 >= src || link.1 >= tgt) {
            let path = path.display();
            bail!("`{path}` line {number}: `{left}-{right}` is beyond the pair's {src} and {tgt} words");
        }
    }
    Ok(gold)
}

/// The alignment error rate of every decoder layer, from the lowest.
fn error_rates(translator: &Translator<'_>, pairs: &[Pair], gold: &[Vec<Link>]) -> anyhow::Result<Vec<f64>> {
    let links = align(translator, pairs)?;
    let num_layers = links.first().map_or(0, Vec::len);
    Ok((0..num_layers).map(|layer| error_rate(links.iter().map(|layers| &layers[layer]), gold)).collect())
}

fn write(report: &Report<'_>, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(report)?)?);
    }
    let Report { checkpoint, ensemble, step, split, sentences, beam_size, scores, alignment_error_rates } = report;
    writeln!(out, "checkpoint      {}   step {step}", checkpoint.display())?;
    for other in ensemble {
        writeln!(out, "with            {}", other.display())?;
    }
    writeln!(out, "split           {split}   {sentences} sentences, beam {beam_size}")?;
    writeln!(out, "BLEU            {:.2}   {}", scores.bleu, scores.signatures.bleu)?;
    writeln!(out, "chrF            {:.2}   {}", scores.chrf, scores.signatures.chrf)?;
    writeln!(out, "exact match     {:.4}", scores.exact_match)?;
    writeln!(out, "token accuracy  {:.4}", scores.token_accuracy)?;
    writeln!(out, "loss            {:.4}   nats per target token", scores.loss)?;
    writeln!(out, "perplexity      {:.4}", scores.perplexity)?;
    for (layer, rate) in (1..).zip(alignment_error_rates.iter().flatten()) {
        writeln!(out, "AER             {rate:.4}   decoder layer {layer}")?;
    }
    Ok(())
}
