//! The training loop and everything only it needs.

pub mod checkpoint;
mod config;
pub mod dashboard;
mod max_tokens;
pub mod metrics;
mod monitor;
mod optimizer;
mod progress;
mod schedule;
mod session;
mod step;
mod stop;

use std::sync::Arc;

use anyhow::anyhow;
use burn::tensor::Device;
use polyglow_data::batching::BatchingConfig;
use polyglow_data::corpus::Pair;
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::tokenizer::Tokenizers;

pub use checkpoint::{TextHashes, TrainState};
pub use config::{BestMetric, BleuTokenizer, OptimizerKind, ScheduleKind, TrainConfig};
pub use max_tokens::MaxTokens;
pub use monitor::Interval;
pub use optimizer::Optimizer;
pub use progress::{Progress, Screen, TrainReport};
pub use schedule::Schedule;
pub use session::Session;
pub use step::{Phase, StepConfig, StepRecord, observed_step, step};
pub use stop::Stop;

use crate::config::Config;
use crate::failure::{self, usage, with_hint};
use crate::run_directory::{Lock, RunDirectory};
use crate::workload;

/// Everything that a training is made from.
pub struct Setup<'a> {
    /// The resolved configuration.
    pub config: &'a Config,
    /// Where everything is written.
    pub run: &'a RunDirectory,
    /// Where the model is, without autodiff.
    pub device: &'a Device,
    /// Both sides' tokenizers.
    pub tokenizers: &'a Tokenizers,
    /// The training examples.
    pub cache: &'a Arc<IdCache>,
    /// The validation pairs; without any there is no validation and no `best`.
    pub valid: &'a [Pair],
    /// What keeps other trainings out of it.
    pub lock: &'a Lock,
    /// What the texts and tokenizers are, for checkpoints to remember.
    pub text: &'a TextHashes,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At `max_steps` or `max_epochs`.
    Done,
    /// `patience` validations brought nothing better.
    OutOfPatience,
    /// Somebody asked for it; the same command goes on.
    Stopped,
}

/// Trains from the newest checkpoint, or from the start where there is none, to the end.
///
/// What cannot be written is tried again at the next opportunity, and training goes on.
///
/// # Errors
/// What is wrong with the data; a loss or gradient that is not finite; the device fails, as when its memory is full; the
/// last checkpoint or record cannot be written; the dashboard's user wants no end in order.
pub fn train(setup: &Setup<'_>, stop: &Stop, screen: Screen) -> anyhow::Result<(Ending, TrainState)> {
    let mut session = Session::start(setup)?;
    let start = Position { epoch: session.state.epoch, position: session.state.position as usize };
    let mut batches = BatchStream::start(Arc::clone(setup.cache), batching(setup.config), start)?;
    match failure::catch_panic(|| session.warm_up(stop)) {
        Ok(done) => done?,
        Err(panic) => return Err(broken(&session, setup.device, &panic)),
    }
    let mut progress = Progress::start(setup.run, session.state.step, session.last_step(), screen)?;
    // Burn has no errors of its own: a device that fails panics, in whatever is asked of it next.
    let steps = || steps(&setup.config.train, &mut session, &mut batches, &mut progress, stop);
    let ending = failure::catch_panic(steps);
    let recorded = progress.finish();
    let ending = match ending {
        Ok(ending) => ending?,
        Err(panic) => return Err(broken(&session, setup.device, &panic)),
    };
    recorded?;
    workload::end();
    // Nobody looks at the flag from here on: with it set, the next signal ends the process.
    stop.ask();
    Ok((ending, session.state))
}

/// Makes step after step until there is a reason to end.
fn steps(
    config: &TrainConfig,
    session: &mut Session<'_>,
    batches: &mut BatchStream,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<Ending> {
    loop {
        if let Some(ending) = session.ending() {
            return Ok(ending);
        }
        session.step(batches)?;
        let number = session.state.step;
        progress.advance(number)?;
        if progress.asks_to_stop() {
            stop.ask();
        }
        let due = |every: u64| number.is_multiple_of(every) || session.is_last();
        let (log, validate, save) = (due(config.log_every), due(config.validate_every), due(config.save_every));
        if log {
            session.report(progress)?;
        }
        if validate {
            progress.validating(number)?;
        }
        let improved = validate && session.validate(progress)?;
        let asked = stop.asked();
        let ends = asked || session.ending().is_some();
        if save || improved || ends {
            progress.settle();
            let content = session.content()?;
            match session.save(&content) {
                Err(error) if !ends => tracing::warn!("{error:#}; training goes on, and the next save tries again"),
                result => result?,
            }
        }
        if asked {
            return Ok(Ending::Stopped);
        }
    }
}

/// The error of a device that failed in the middle of something.
fn broken(session: &Session<'_>, device: &Device, panic: &str) -> anyhow::Error {
    let batch = workload::current().map(|batch| format!("; the batch: {batch}")).unwrap_or_default();
    let error = anyhow!("training failed on {device:?} after step {}: {panic}{batch}", session.state.step);
    let advice = "if the device ran out of memory, lower `train.max_tokens`; if not, please report this";
    with_hint(error, format!("{}, and the same command goes on from it; {advice}", session.last_good()))
}

/// The device that a model is trained on: one that differentiates, in the way that the configuration asks for.
///
/// # Errors
/// It does not compute in `train.precision` (exit code 2).
pub fn training_device(config: &Config, device: &Device) -> anyhow::Result<Device> {
    if !config.train.precision.is_supported(device) {
        let error = anyhow!("`train.precision = \"bf16\"`: the device `{}` does not compute in bf16", config.device);
        let advice = "set `train.precision = \"f32\"`, or take a device that does: `cuda` on NVIDIA GPUs since Ampere";
        return Err(with_hint(usage(error), advice));
    }
    let device = device.clone().autodiff();
    Ok(if config.train.gradient_checkpointing { device.gradient_checkpointing() } else { device })
}

/// How the configuration wants examples put into batches.
pub fn batching(config: &Config) -> BatchingConfig {
    BatchingConfig {
        max_tokens: config.train.max_tokens.tokens(),
        pad_multiple: pad_multiple(config),
        seed: config.seed,
        dropout: config.tokenizer.dropout,
        links: config.train.alignment_weight > 0.0,
        framing: config.training_framing(),
    }
}

/// What padded lengths are multiples of: `train.pad_multiple`, or what suits the device.
///
/// GPU kernels are tuned and compiled for each shape, so there are few of them; a CPU does only what is asked.
pub fn pad_multiple(config: &Config) -> usize {
    let on_cpu = config.device == "flex" || config.device == "ndarray";
    config.train.pad_multiple.unwrap_or(if on_cpu { 1 } else { 8 })
}

/// The step that training ends with: `max_steps`, or where `max_epochs` epochs of `epoch_len` batches end if that is
/// earlier. With fractional corpus weights epochs differ a little in length, and this is an estimate.
pub fn last_step(config: &TrainConfig, epoch_len: usize) -> u64 {
    let steps_per_epoch = epoch_len.div_ceil(config.accumulate_steps) as u64;
    let epochs = config.max_epochs.map_or(u64::MAX, |epochs| epochs.saturating_mul(steps_per_epoch));
    config.max_steps.unwrap_or(u64::MAX).min(epochs)
}
