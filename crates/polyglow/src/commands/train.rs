//! `polyglow train`: from a config to a trained model.

mod finish;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use polyglow_data::file;
use polyglow_predict::group::Group;
use polyglow_predict::wording::counted;
use polyglow_train::run::TrainState;
use polyglow_train::train::{Ending, Start, Training, check_one_config};
use polyglow_train::{Observer, Silent};

use super::config::{ConfigArgs, default_reverse_run, default_run};
use crate::failure::STOPPED;
use crate::inspection::inspect;
use crate::progress::{Progress, Screen};
use crate::signals::Signals;
use finish::finish;

/// The arguments of `polyglow train`.
#[derive(Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    source: ConfigArgs,
    /// Directory of the run [default: runs/<name of the config>]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Train to translate from the config's target language to its source language, into
    /// runs/<name of the config>-reverse: the model that makes back-translations
    #[arg(long)]
    reverse: bool,
    /// Start a new run in this directory with the weights of the run `--run`: to fine-tune, or to
    /// change schedule or corpus
    #[arg(long, value_name = "NEW_RUN")]
    fork: Option<PathBuf>,
    /// The checkpoint whose weights a fork takes: `best`, `last`, `step-N`, `average` or `ema`
    #[arg(long, value_name = "NAME", default_value = "best", requires = "fork")]
    checkpoint: String,
    /// A fork learns the vocabulary of its own config; tokens that the old run has keep their
    /// weights, others are drawn
    #[arg(long, requires = "fork")]
    new_vocabulary: bool,
    /// Show a dashboard in the terminal; its key `q` saves and stops, like Ctrl-C
    #[arg(long)]
    tui: bool,
}

impl TrainArgs {
    /// The training of a model that translates in the other direction.
    pub(super) fn reversed(source: ConfigArgs) -> Self {
        Self {
            source,
            run: None,
            reverse: true,
            fork: None,
            checkpoint: "best".to_owned(),
            new_vocabulary: false,
            tui: false,
        }
    }
}

/// Prepares the data, trains to the end or until interrupted, and tests the result. Returns the
/// exit code: 0 after the end, [`STOPPED`] where the same command resumes it.
///
/// # Errors
/// As [`Training::prepare`], [`Training::fork`] and [`Training::run`].
pub(crate) fn run(args: &TrainArgs, group: &Arc<dyn Group>) -> anyhow::Result<u8> {
    match train(args, group)? {
        None => Ok(STOPPED),
        Some(training) => finish(&training.run, &training.plan).map(|()| 0),
    }
}

/// Prepares the data, and trains to the end; returns nothing if it was interrupted before.
///
/// # Errors
/// As [`run`].
pub(super) fn train(args: &TrainArgs, group: &Arc<dyn Group>) -> anyhow::Result<Option<Training>> {
    let config = if args.reverse {
        args.source.load_reversed()?
    } else {
        args.source.load()?
    };
    // Before all other checks, in which another config of a rank would show as another error.
    check_one_config(&**group, &config)?;
    let screen = if args.tui {
        Screen::dashboard()?
    } else {
        Screen::Lines
    };
    let mut progress: Box<dyn Observer> = if group.is_first() {
        Box::new(Progress::new(screen))
    } else {
        Box::new(Silent)
    };
    let default_run = if args.reverse {
        default_reverse_run(&args.source.config)
    } else {
        default_run(&args.source.config)
    };
    let run = args.run.clone().unwrap_or(default_run);
    let (run, start) = match &args.fork {
        Some(new) => {
            let start = Start {
                run,
                checkpoint: args.checkpoint.clone(),
                new_vocabulary: args.new_vocabulary,
            };
            (new.clone(), Some(start))
        }
        None => (run, None),
    };
    // Until the first step a signal ends the process, because there is nothing worth saving.
    let signals = Signals::install()?;
    let mut training = Training::prepare_among(group, config, start.as_ref(), run, &mut *progress)?;
    if group.is_first() && training.is_new()? {
        inspect_and_keep(&training)?;
    }
    signals.save_from_now_on();
    let (ending, state) = training.run(&signals.stop, &mut *progress)?;
    drop(progress);
    report_ending(ending, &state, &signals, &training);
    if ending == Ending::Stopped {
        return Ok(None);
    }
    // What follows saves nothing.
    signals.end_process_from_now_on();
    Ok(Some(training))
}

/// Logs why a training ended, and after how many steps.
fn report_ending(ending: Ending, state: &TrainState, signals: &Signals, training: &Training) {
    match ending {
        Ending::Stopped => {
            let why = if signals.has_hung_up() {
                ", because the terminal was closed (SIGHUP)"
            } else {
                ""
            };
            tracing::info!(
                "stopped after step {}{why}; the same command resumes it",
                state.step
            );
        }
        Ending::OutOfPatience => {
            let patience = training.plan.config.train.patience;
            tracing::info!(
                "ended after step {}: no improvement in {}",
                state.step,
                counted(patience, "validation")
            );
        }
        Ending::Done => tracing::info!(
            "trained {} steps on {} target tokens",
            state.step,
            state.tokens
        ),
    }
}

/// Prints the report of `check`, and saves it in the run's directory.
fn inspect_and_keep(training: &Training) -> anyhow::Result<()> {
    let mut inspection = inspect(training, training.run.root())?;
    tracing::info!("{}", inspection.to_string().trim_end());
    // Of a large text they would be most of the file; `check --json` and `check --list` have them.
    for finding in &mut inspection.findings {
        finding.lines.clear();
    }
    let path = training.run.inspection_path();
    let text = serde_json::to_string_pretty(&inspection)? + "\n";
    file::replace(&path, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    for warning in inspection.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}
