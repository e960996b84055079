//! A training under way: the model, the optimizer, and where it stands.

mod save;
mod warm_up;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::batch::Batch;
use polyglow_data::epoch::Epoch;
use polyglow_data::prefetch::BatchStream;
use polyglow_model::Model;

use super::checkpoint::{Best, Checkpoints, TrainState};
use super::config::BestMetric;
use super::monitor::Monitor;
use super::optimizer::Optimizer;
use super::progress::{Progress, TrainReport};
use super::schedule::Schedule;
use super::step::{StepConfig, step};
use super::{Ending, Setup, batching, last_step, pad_multiple, training_device};
use crate::evaluation::{Scores, evaluate};
use crate::failure::with_hint;
use crate::run_directory::{load_weights, model_shape};
use crate::translate::{Member, Translator};
use crate::workload;

/// Translations that are shown after each validation.
const SAMPLES: usize = 3;

/// A training under way.
pub struct Session<'a> {
    /// Where it stands.
    pub state: TrainState,
    setup: &'a Setup<'a>,
    device: Device,
    model: Option<Model>,
    optimizer: Optimizer,
    schedule: Schedule,
    last_step: u64,
    monitor: Monitor,
    checkpoints: Checkpoints,
    /// The newest whole checkpoint.
    saved: Option<PathBuf>,
    /// The best validation before the newest that was better, and those since: the newest may not be written yet.
    before_best: (Option<Best>, u64),
    stepping: Duration,
    /// Tokens of the interval that an earlier process saw, in time that this one does not know.
    untimed_tokens: u64,
}

impl<'a> Session<'a> {
    /// Takes up the newest whole checkpoint of the run, or starts with fresh weights.
    ///
    /// # Errors
    /// There are checkpoints and none is whole; one does not fit the configuration; the training text gives no batch.
    pub fn start(setup: &'a Setup<'a>) -> anyhow::Result<Self> {
        let config = setup.config;
        let device = training_device(config, setup.device)?;
        let shape = model_shape(config, setup.tokenizers)?;
        let checkpoints = setup.run.checkpoints(config.train.keep_last);
        checkpoints.tidy(|name| name.starts_with("step-"))?;
        let mut model = shape.init(config.seed, &device);
        let mut optimizer = Optimizer::new(&config.train, &model);
        let (mut state, mut saved) = (TrainState::default(), None);
        if let Some(checkpoint) = checkpoints.newest()? {
            model = load_weights(model, checkpoint.model()?)?;
            let mut moments = checkpoint.optimizer()?;
            optimizer.restore_state(setup.device, |name, shape| moments.take(name, shape))?;
            if config.train.ema_decay > 0.0 {
                let mut average = checkpoint.average()?;
                optimizer.restore_average(setup.device, |name, shape| average.take(name, shape))?;
            }
            state = checkpoint.state;
            checkpoints.recover(&state)?;
            saved = Some(checkpoint.path.clone());
            tracing::info!("resuming after step {} from `{}`", state.step, checkpoint.path.display());
        } else if !checkpoints.steps()?.is_empty() {
            let error = anyhow!(
                "no checkpoint of `{}` is whole, so there is nothing to resume from",
                setup.run.root().display()
            );
            return Err(with_hint(error, "bring one back, or remove `checkpoints` in it to begin anew"));
        }
        state.text = Some(setup.text.clone());
        let epoch_len = Epoch::new(setup.cache, &batching(config), 0)?.len();
        let last_step = last_step(&config.train, epoch_len);
        let schedule = Schedule::new(&config.train, last_step, shape.d_model());
        let untimed_tokens = state.interval.tokens;
        Ok(Self {
            state,
            setup,
            device,
            model: Some(model),
            optimizer,
            schedule,
            last_step,
            monitor: Monitor::default(),
            checkpoints,
            saved,
            before_best: (None, 0),
            stepping: Duration::ZERO,
            untimed_tokens,
        })
    }

    /// The step that training ends with.
    pub fn last_step(&self) -> u64 {
        self.last_step
    }

    /// Whether the last step is done.
    pub fn is_last(&self) -> bool {
        self.state.step >= self.last_step || self.epochs_are_over()
    }

    /// Whether there is a reason to end, and which.
    pub fn ending(&self) -> Option<Ending> {
        let patience = self.setup.config.train.patience;
        if self.is_last() {
            Some(Ending::Done)
        } else if patience > 0 && self.state.stale_validations >= patience {
            Some(Ending::OutOfPatience)
        } else {
            None
        }
    }

    /// Takes the next window of micro-batches and moves the weights once.
    ///
    /// # Errors
    /// A batch cannot be read.
    pub fn step(&mut self, batches: &mut BatchStream) -> anyhow::Result<()> {
        let started = Instant::now();
        let config = &self.setup.config.train;
        let window = next_window(batches, config.accumulate_steps)?;
        let number = self.state.step + 1;
        let step_config = StepConfig {
            seed: self.setup.config.seed,
            step: number,
            lr: self.schedule.learning_rate(number),
            label_smoothing: config.label_smoothing,
            alignment_weight: config.alignment_weight,
        };
        let model = self.model.take().context("a step failed before this one")?;
        let (model, record) = step(model, &mut self.optimizer, &window, &self.device, step_config);
        self.model = Some(model);
        self.state.step = number;
        self.state.tokens += record.num_tokens as u64;
        if let Some(last) = window.last() {
            let epoch_ends = last.position + 1 == last.epoch_len;
            self.state.epoch = if epoch_ends { last.epoch + 1 } else { last.epoch };
            self.state.position = if epoch_ends { 0 } else { last.position as u64 + 1 };
        }
        let examples = window.into_iter().flat_map(|batch| batch.example_indices).collect();
        self.monitor.push(record, examples);
        self.stepping += started.elapsed();
        Ok(())
    }

    /// Reads what the steps left on the device.
    ///
    /// # Errors
    /// Something in it is not finite.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        self.monitor.check(&mut self.state.interval, self.setup.cache, self.saved.as_deref())?;
        self.stepping += started.elapsed();
        Ok(())
    }

    /// Shows and records the steps since the last report.
    ///
    /// # Errors
    /// A loss or gradient is not finite; the dashboard's user wants no end in order.
    pub fn report(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        self.check()?;
        let interval = std::mem::take(&mut self.state.interval);
        let step = self.state.step;
        // The epoch of that step, counted from 1; the state names that of the next.
        let epoch = self.state.epoch + u64::from(self.state.position > 0);
        let lr = self.schedule.learning_rate(step);
        let elapsed = std::mem::take(&mut self.stepping);
        let timed_tokens = interval.tokens - std::mem::take(&mut self.untimed_tokens);
        progress.train(TrainReport { step, epoch, lr, interval: &interval, elapsed, timed_tokens })
    }

    /// Scores the validation set by greedy search and keeps the translations; returns whether it is the best so far.
    ///
    /// # Errors
    /// A loss or gradient before it is not finite, or the loss of the validation; the dashboard's user wants no end in order.
    pub fn validate(&mut self, progress: &mut Progress) -> anyhow::Result<bool> {
        self.check()?;
        workload::end();
        let (setup, step) = (self.setup, self.state.step);
        if setup.valid.is_empty() {
            return Ok(false);
        }
        let config = &setup.config.train;
        let model = self.model.as_ref().context("a step failed before this")?.valid();
        let search = setup.config.search.greedy();
        let translator = Translator {
            members: vec![Member { model: &model, src: &setup.tokenizers.src }],
            tgt: &setup.tokenizers.tgt,
            search: &search,
            device: setup.device,
            max_tokens: config.max_tokens.tokens(),
            pad_multiple: pad_multiple(setup.config),
            framing: setup.config.framing(),
        };
        let evaluation = evaluate(&translator, setup.valid, config.tokenize)?;
        anyhow::ensure!(
            evaluation.scores.loss.is_finite(),
            "the validation loss after step {step} is not finite: the weights are ruined, and nothing is saved"
        );
        let path = setup.run.validation_path(step);
        if !evaluation.hypotheses.is_empty()
            && let Err(error) = fs::write(&path, evaluation.hypotheses.join("\n") + "\n")
        {
            tracing::warn!("cannot write `{}`: {error}; training goes on without it", path.display());
        }
        progress.scores(step, &evaluation.scores)?;
        for (pair, hypothesis) in setup.valid.iter().zip(&evaluation.hypotheses).take(SAMPLES) {
            tracing::info!("  source      {}\n  reference   {}\n  hypothesis  {hypothesis}", pair.src, pair.tgt);
        }
        Ok(self.compare(&evaluation.scores))
    }

    /// Whether these scores are the best so far; remembers them if so. Among equal scores, such as the zeros of the
    /// first validations, the loss decides.
    fn compare(&mut self, scores: &Scores) -> bool {
        let (score, sign) = match (self.setup.config.train.best_metric, &scores.translations) {
            (BestMetric::Bleu, Some(translations)) => (translations.bleu, 1.0),
            (BestMetric::Chrf, Some(translations)) => (translations.chrf, 1.0),
            (BestMetric::Loss, _) | (_, None) => (scores.loss, -1.0),
        };
        let rank = |score: f64, loss: f64| (score * sign, -loss);
        let improved = self.state.best.is_none_or(|best| rank(score, scores.loss) > rank(best.score, best.loss));
        if improved {
            self.before_best = (self.state.best, self.state.stale_validations);
            self.state.best = Some(Best { step: self.state.step, score, loss: scores.loss });
            self.state.stale_validations = 0;
        } else {
            self.state.stale_validations += 1;
        }
        improved
    }

    fn epochs_are_over(&self) -> bool {
        self.setup.config.train.max_epochs.is_some_and(|epochs| self.state.epoch >= epochs)
    }
}

/// The micro-batches of the next step: `accumulate_steps` of them, or fewer where the epoch ends.
fn next_window(batches: &mut BatchStream, accumulate_steps: usize) -> anyhow::Result<Vec<Batch>> {
    let mut window = Vec::with_capacity(accumulate_steps);
    while window.len() < accumulate_steps {
        let batch = batches.next().context("the stream of batches ended")??;
        let epoch_ends = batch.position + 1 == batch.epoch_len;
        window.push(batch);
        if epoch_ends {
            break;
        }
    }
    Ok(window)
}
