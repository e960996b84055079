//! The arguments of every command that uses a trained model.

use std::path::PathBuf;

use clap::Args;

use super::counts;
use crate::commands::model::ModelArgs;

/// What commands that use a trained model start from.
#[derive(Args)]
pub(super) struct Model {
    /// Directory of the run
    run: PathBuf,
    /// `best`, `last`, `step-N`, `average`, `ema`, `int8`, or the path of a checkpoint
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// Another model that decides together with the first: a run directory or a checkpoint; may be repeated
    #[arg(long, value_name = "PATH")]
    ensemble: Vec<PathBuf>,
    /// Hypotheses to keep at each position, 1 for greedy search [default: the config's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    beam_size: Option<usize>,
    /// Override a key of `[search]` or `[data]`, `train.tokenize` or `train.max_tokens`, as in `search.length_alpha=0.6`;
    /// may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

impl From<Model> for ModelArgs {
    fn from(model: Model) -> Self {
        let Model { run, checkpoint, ensemble, beam_size, overrides, device } = model;
        Self { run, checkpoint, ensemble, overrides, beam_size, device }
    }
}
