//! `polyglow train`: from a config to a trained model.

mod finish;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyglow_train::config::Config;
use polyglow_train::train::{Ending, Training};

use crate::inspection::{Subject, inspect};
use crate::progress::{Progress, Screen};
use crate::signals::stop_on_signals;
use finish::finish;

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
/// # Errors
/// As [`Training::prepare`], [`Training::fork`] and [`Training::run`].
pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?;
    if let Some(device) = &args.device {
        config.device.clone_from(device);
    }
    let screen = if args.tui { Screen::dashboard()? } else { Screen::Lines };
    let mut progress = Progress::new(screen);
    let run = args.run.clone().unwrap_or_else(|| default_run(&args.config));
    let mut training = match &args.fork {
        Some(new) => Training::fork(config, run, &args.checkpoint, new, &mut progress)?,
        None => Training::prepare(config, run, &mut progress)?,
    };
    if training.is_new()? {
        inspect_and_keep(&training)?;
    }
    // Until here an interrupt simply ends the process: there is nothing to save that would not be made again.
    let stop = stop_on_signals()?;
    let (ending, state) = training.run(&stop, &mut progress)?;
    // Nobody looks at the flag from here on: with it set, the next signal ends the process.
    stop.ask();
    drop(progress);
    match ending {
        Ending::Stopped => {
            tracing::info!("stopped after step {}; the same command goes on from there", state.step);
            return Ok(());
        }
        Ending::OutOfPatience => {
            let patience = training.config.train.patience;
            tracing::info!("ended after step {}: nothing better in {patience} validations", state.step);
        }
        Ending::Done => tracing::info!("trained {} steps on {} target tokens", state.step, state.tokens),
    }
    finish(&training.run, &training.config, &training.device)
}

/// Shows what `check` would, and keeps it in the run's directory.
fn inspect_and_keep(training: &Training) -> anyhow::Result<()> {
    let Training { config, run, device, text, tokenizers, cache, .. } = training;
    let inspection = inspect(&Subject { config, train: &text.train, cache, tokenizers, device })?;
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
