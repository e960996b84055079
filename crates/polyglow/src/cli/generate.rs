//! The arguments of `polyglow generate`.

use std::path::PathBuf;

use clap::Args;

use super::counts;
use crate::commands::generate::GenerateArgs;

#[derive(Args)]
pub(super) struct Generate {
    /// Directory of the run of a language model
    run: PathBuf,
    /// What every text begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,
    /// Texts to write
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    count: usize,
    /// Longest text, in tokens, the prompt's included [default: as many as the model was trained for]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    max_len: Option<usize>,
    /// Divides log-probabilities: below 1 safer, above 1 more surprising
    #[arg(long, value_name = "T", default_value = "1", allow_negative_numbers = true)]
    temperature: f64,
    /// Draw among the so many most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value = "0")]
    top_k: usize,
    /// Draw among the fewest tokens that have at least this probability together
    #[arg(long, value_name = "P", default_value = "1", allow_negative_numbers = true)]
    top_p: f64,
    /// The same seed writes the same texts
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

impl From<Generate> for GenerateArgs {
    fn from(generate: Generate) -> Self {
        let Generate { run, prompt, count, max_len, temperature, top_k, top_p, seed, checkpoint, device } = generate;
        Self { run, prompt, count, max_len, temperature, top_k, top_p, seed, checkpoint, device }
    }
}
