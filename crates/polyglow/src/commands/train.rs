//! `polyglow train`: from a config to a trained model.

mod finish;
mod fork;
mod prepare;
mod resume;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::config::Config;
use crate::device;
use crate::failure::with_hint;
use crate::inspection::{Subject, find_max_tokens, inspect};
use crate::run_directory::RunDirectory;
use crate::train::{self, Ending, MaxTokens, Screen, Setup, Stop};

use finish::finish;
use fork::Origin;
use prepare::{Prepared, Text, prepare};
use resume::check_same_config;

/// What `polyglow train` is asked to do.
#[derive(Clone, Debug)]
pub struct TrainArgs {
    /// The config file.
    pub config: PathBuf,
    /// Keys to override, as `section.key=value`.
    pub overrides: Vec<String>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Directory of the run, in place of `runs/<name of the config>`.
    pub run: Option<PathBuf>,
    /// Directory of a new run that starts from the weights of `run`.
    pub fork: Option<PathBuf>,
    /// Which weights a fork starts from.
    pub checkpoint: String,
    /// Whether to show a dashboard in the terminal.
    pub tui: bool,
}

/// Prepares the data, trains to the end or until it is asked to stop, and tests the result.
///
/// The run's directory is made once everything that can be checked without training is known to be right. The same
/// command goes on where a run was stopped.
///
/// # Errors
/// The config is wrong (exit code 2) or another than the run's; the device is not there; the data cannot be read; the
/// disk fails; a loss is not finite.
pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?;
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let screen = if args.tui { Screen::dashboard()? } else { Screen::Lines };
    let device = device::open(&config.device)?;
    train::training_device(&config, &device)?;
    let text = Text::open(&config)?;
    let named = RunDirectory::new(args.run.clone().unwrap_or_else(|| default_run(&args.config)));
    let run = args.fork.as_ref().map_or_else(|| named.clone(), RunDirectory::new);
    run.check_is_ours()?;
    let origin = match args.fork {
        Some(_) => Origin::find(&named, &args.checkpoint, &run, &config)?,
        None => fork::check_is_no_fork(&run).map(|()| None)?,
    };
    let lock = run.lock()?;
    check_leaves_nothing_behind(&run)?;
    settle_batches(&run, &mut config)?;
    check_same_config(&run, &config)?;
    let prepared = prepare(&run, origin.as_ref(), &config, &text)?;
    let Prepared { tokenizers, cache, hashes } = &prepared;
    if config.train.max_tokens == MaxTokens::Auto {
        let found = find_max_tokens(&config, tokenizers, cache, &device)?;
        tracing::info!(
            "train.max_tokens = {found}: what fits the memory of a GPU, or on a CPU the default; this run keeps it"
        );
        config.train.max_tokens = MaxTokens::Tokens(found);
        run.create(&config)?;
    }
    if run.checkpoints(1).steps()?.is_empty() {
        let subject = Subject { config: &config, train: &text.train, cache, tokenizers, device: &device };
        say_and_keep(&run, &subject)?;
        if let Some(origin) = origin {
            origin.plant(&run, &config, tokenizers, hashes, &device)?;
        }
    }
    let setup = Setup {
        config: &config,
        run: &run,
        lock: &lock,
        device: &device,
        tokenizers,
        cache,
        valid: &text.valid_pairs,
        text: hashes,
    };
    // Until here an interrupt simply ends the process: there is nothing to save that would not be made again.
    let (ending, state) = train::train(&setup, &Stop::on_signals()?, screen)?;
    match ending {
        Ending::Stopped => {
            tracing::info!("stopped after step {}; the same command goes on from there", state.step);
            return Ok(());
        }
        Ending::OutOfPatience => {
            tracing::info!("ended after step {}: nothing better in {} validations", state.step, config.train.patience);
        }
        Ending::Done => tracing::info!("trained {} steps on {} target tokens", state.step, state.tokens),
    }
    finish(&run, &config, &device)
}

/// Makes sure that a training that would begin is not in the directory of one that has only weights left.
fn check_leaves_nothing_behind(run: &RunDirectory) -> anyhow::Result<()> {
    let checkpoints = run.checkpoints(1);
    let left = checkpoints.named()?;
    if !checkpoints.steps()?.is_empty() || left.is_empty() {
        return Ok(());
    }
    let (root, left) = (run.root().display(), left.join("`, `"));
    let error = anyhow!(
        "`{root}` has the checkpoint `{left}` and none to go on from, and a new training would replace its records"
    );
    Err(with_hint(error, "bring a checkpoint `step-N` back, or give the new training another directory with `--run`"))
}

/// Says what `check` would, and keeps it in the run's directory.
fn say_and_keep(run: &RunDirectory, subject: &Subject<'_>) -> anyhow::Result<()> {
    let inspection = inspect(subject)?;
    tracing::info!("{}", inspection.to_string().trim_end());
    let path = run.inspection_path();
    fs::write(&path, serde_json::to_string_pretty(&inspection)? + "\n")
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    for warning in inspection.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// `runs/<name of the config>`.
fn default_run(config: &Path) -> PathBuf {
    Path::new("runs").join(config.file_stem().unwrap_or_default())
}

/// Writes down what padded lengths are multiples of, and takes over a size of batches that was found before: the order of
/// the data depends on both, and a run that goes on keeps them on any device.
fn settle_batches(run: &RunDirectory, config: &mut Config) -> anyhow::Result<()> {
    let old = if run.config_path().is_file() { Some(run.config()?.train) } else { None };
    if config.train.max_tokens == MaxTokens::Auto {
        config.train.max_tokens = old.as_ref().map_or(MaxTokens::Auto, |old| old.max_tokens);
    }
    if config.train.pad_multiple.is_none() {
        let old = old.and_then(|old| old.pad_multiple);
        config.train.pad_multiple = Some(old.unwrap_or_else(|| train::pad_multiple(config)));
    }
    Ok(())
}
