//! `polyglow evaluate`: the scores of a trained model.

use std::io::{self, Write};
use std::path::PathBuf;

use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};

use crate::activity::Activity;
use crate::device;
use crate::evaluation::{Evaluation, evaluate};
use crate::run_directory::RunDirectory;

/// What `polyglow evaluate` is asked to do.
#[derive(Clone, Debug)]
pub struct EvaluateArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint.
    pub checkpoint: String,
    /// Hypotheses to keep at each position, in place of the config's.
    pub beam_size: Option<usize>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// The set to score: `valid`, `test`, or a name of `[data.test]`.
    pub split: String,
    /// Whether to print the scores as JSON.
    pub json: bool,
}

/// Scores a set and prints the scores to stdout, as lines or as one JSON object.
///
/// # Errors
/// There is no such run, checkpoint, set or device; the set cannot be read.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<()> {
    let run = RunDirectory::existing(&args.run)?;
    let mut config = run.config()?;
    let device = device::open(args.device.as_ref().unwrap_or(&config.device))?;
    if let Some(beam_size) = args.beam_size {
        config.search.beam_size = beam_size;
    }
    let split = if args.split == "valid" { Split::Valid } else { Split::Test(&args.split) };
    let pairs: Vec<Pair> = Corpus::open(&config.data, split)?.pairs().collect::<Result<_, _>>()?;
    let trained = run.load(&args.checkpoint, &device)?;
    let translator = trained.translator(&config.search, &device);
    let mut activity = Activity::new();
    activity.show(format!("translating {} sentences", pairs.len()));
    let Evaluation { scores, .. } = evaluate(&translator, &pairs, config.train.tokenize)?;
    drop(activity);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&scores)?)?;
        return Ok(());
    }
    writeln!(out, "BLEU            {:.2}   {}", scores.bleu, scores.signatures.bleu)?;
    writeln!(out, "chrF            {:.2}   {}", scores.chrf, scores.signatures.chrf)?;
    writeln!(out, "exact match     {:.4}", scores.exact_match)?;
    writeln!(out, "token accuracy  {:.4}", scores.token_accuracy)?;
    writeln!(out, "loss            {:.4}   nats per target token", scores.loss)?;
    writeln!(out, "perplexity      {:.4}", scores.perplexity)?;
    Ok(())
}
