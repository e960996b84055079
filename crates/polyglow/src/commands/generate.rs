//! `polyglow generate`: text from a language model.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
use polyglow_predict::TaskFacts;
use polyglow_train::run::runner;

use super::counts;
use super::model::ModelArgs;
use super::uses::check_plan;
use crate::failure::usage;

/// The arguments of `polyglow generate`.
#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// Directory of the run of a language model
    run: PathBuf,
    /// What every text begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,
    /// Number of texts to write
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    count: usize,
    /// Maximum length in tokens, prompt included [default: the longest that the model was trained
    /// on]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    max_len: Option<usize>,
    /// Sampling temperature, which divides the log-probabilities: below 1 safer, above 1 more
    /// surprising
    #[arg(
        long,
        value_name = "T",
        default_value = "1",
        allow_negative_numbers = true
    )]
    temperature: f64,
    /// Sample from this many of the most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value = "0")]
    top_k: usize,
    /// Sample from the fewest tokens whose probabilities add up to at least this
    #[arg(
        long,
        value_name = "P",
        default_value = "1",
        allow_negative_numbers = true
    )]
    top_p: f64,
    /// Random seed; the same seed gives the same texts
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Draws texts by the model's probabilities and prints each on a line.
///
/// # Errors
/// There is no such run, checkpoint or device; the run is of a model that translates, or a number
/// is out of its range (exit code 2); the prompt is too long or has words that the vocabulary
/// lacks.
pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    let model_args = ModelArgs::of_run(&args.run, &args.checkpoint, args.device.clone());
    let search = SearchRequest {
        method: Some(SearchMethod::Sample),
        n_best: args.count,
        temperature: Some(args.temperature),
        top_k: Some(args.top_k),
        top_p: Some(args.top_p),
        seed: Some(args.seed),
        ..SearchRequest::default()
    };
    // Before the model is loaded, which may take long. The arguments alone decide the search: the
    // run's `[search]` is about the model's answers, not about free text.
    let config = SearchConfig::default();
    config.for_request(&search, usize::MAX).map_err(usage)?;
    let plan = model_args.open()?;
    check_plan(&args.run, &plan, TaskFacts::generates)?;
    let runner = runner(model_args.load(&plan)?, &plan)?.with_search(config);
    let mut out = io::stdout().lock();
    for generated in runner.generate(&args.prompt, args.max_len, &search)? {
        writeln!(out, "{}", generated.text)?;
    }
    Ok(())
}
