//! `polyglow evaluate`: the scores of a trained model.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use serde::Serialize;

use super::model::ModelArgs;
use crate::activity::Activity;
use crate::config::Config;
use crate::evaluation::{Evaluation, Scores, evaluate};
use crate::failure::{usage, with_hint};
use crate::run_directory::translator;
use crate::suggestion::nearest;

/// What `polyglow evaluate` is asked to do.
#[derive(Clone, Debug)]
pub struct EvaluateArgs {
    /// The model, and how to search.
    pub model: ModelArgs,
    /// The set to score: `train`, `valid`, `test`, or a name of `[data.test]`.
    pub split: String,
    /// Whether to print the scores as JSON.
    pub json: bool,
}

/// The scores, and what they are of.
#[derive(Serialize)]
struct Report<'a> {
    /// The directory of the checkpoint.
    checkpoint: &'a Path,
    /// The step that its weights are from.
    step: u64,
    split: &'a str,
    sentences: usize,
    beam_size: usize,
    #[serde(flatten)]
    scores: &'a Scores,
}

/// Scores a set and prints the scores to stdout, as lines or as one JSON object.
///
/// # Errors
/// There is no such run, checkpoint, device or set (exit code 2); the set cannot be read.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<()> {
    let (config, device) = args.model.open()?;
    let split = find_split(&config, &args.split)?;
    let pairs: Vec<Pair> = Corpus::open(&config.data, split)?.pairs().collect::<Result<_, _>>()?;
    let trained = args.model.load(&device)?;
    let translator = translator(&trained, &config.search, &device)?;
    let mut activity = Activity::new();
    activity.show(format!("translating {} sentences", pairs.len()));
    let Evaluation { scores, .. } = evaluate(&translator, &pairs, config.train.tokenize)?;
    drop(activity);
    let report = Report {
        checkpoint: &trained[0].checkpoint.path,
        step: trained[0].checkpoint.state.step,
        split: &args.split,
        sentences: pairs.len(),
        beam_size: config.search.beam_size,
        scores: &scores,
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

fn write(report: &Report<'_>, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(report)?)?);
    }
    let Report { checkpoint, step, split, sentences, beam_size, scores } = report;
    writeln!(out, "checkpoint      {}   step {step}", checkpoint.display())?;
    writeln!(out, "split           {split}   {sentences} sentences, beam {beam_size}")?;
    writeln!(out, "BLEU            {:.2}   {}", scores.bleu, scores.signatures.bleu)?;
    writeln!(out, "chrF            {:.2}   {}", scores.chrf, scores.signatures.chrf)?;
    writeln!(out, "exact match     {:.4}", scores.exact_match)?;
    writeln!(out, "token accuracy  {:.4}", scores.token_accuracy)?;
    writeln!(out, "loss            {:.4}   nats per target token", scores.loss)?;
    writeln!(out, "perplexity      {:.4}", scores.perplexity)?;
    Ok(())
}
