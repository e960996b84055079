//! The model in training, and its steps, with gradient accumulation: a window is the micro-batches
//! of one update, and a micro-batch is cut into shards, which run in parallel on the CPU. A step
//! makes the forward and the backward pass of every shard, adds the gradients of all of them, and
//! updates the weights once.

mod passes;

use std::time::Instant;

use burn::tensor::{Device, Gradients};
use polyglow_kernels::RoundedOnce;
use polyglow_model::parameter;
use polyglow_predict::error::{Context, Result};
use polyglow_predict::model::load_weights;
use polyglow_predict::weights::Weights;

use self::passes::{StepContext, StepKey};
use super::optimizer::Optimizer;
use super::step::{OnPhase, Phase, StepArgs, StepRecord};
use super::sums::{AllReduce, WindowSums, single_process};
use crate::plan::Plan;
use crate::run::Content;
use crate::tasks::{BatchOf, MicroBatch, Task};

/// The error of a stepper that has lost its model: its update panicked, as on a lost device, or a
/// checkpoint could not be restored.
const NO_MODEL: &str = "the model is gone: an update or a restoration before this step has failed";

/// A model in training, with all that its steps need.
///
/// [`Training`](crate::Training) uses it, and so do `polyglow check` and `polyglow bench`. Your own
/// training loop calls it with the micro-batches of each step, its number and its learning rate:
///
/// ```
/// use std::sync::Arc;
///
/// use polyglow_data::sources::BatchSource;
/// use polyglow_model::Model;
/// use polyglow_train::tasks::translation::Translation;
/// use polyglow_train::train::{StepArgs, Stepper};
/// use polyglow_train::{Config, Silent, Task, Training};
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// let task = Translation::<Model>::new(training.setting()?, Arc::clone(training.data.text()?))?;
/// let shape = training.plan.model_shape(&training.tokenizers)?;
/// let model = shape.init(1, &training.plan.training_device()?);
///
/// let batches = training.plan.sharded(task.source());
/// let epoch = batches.plan(0)?;
/// let mut stepper = Stepper::new(&task, &training.plan, model)?;
/// let mut losses = Vec::new();
/// for step in 1..=20 {
///     let window = [batches.batch(0, epoch.batch(0))?];
///     let record = stepper.step(&window, StepArgs::new(step, 3e-3))?;
///     losses.push(record.read().loss_sum / record.num_tokens as f64);
/// }
/// assert!(losses[19] < losses[0]);
/// let model = stepper.into_model()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stepper<'a, T: Task> {
    task: &'a T,
    /// `None` after a panic in an update, or a checkpoint that could not be restored.
    model: Option<T::Model>,
    optimizer: Optimizer,
    device: Device,
    seed: u64,
    all_reduce: Box<AllReduce<'a>>,
}

/// The parts of a [`Stepper`].
pub struct StepperParts<'a, T: Task> {
    /// The task, whose loss is minimized.
    pub task: &'a T,
    /// The model.
    pub model: T::Model,
    /// An optimizer that was made for this model.
    pub optimizer: Optimizer,
    /// The device of the model, with autodiff.
    pub device: Device,
    /// The seed of the run, which with the number of a step decides its dropout.
    pub seed: u64,
}

impl<'a, T: Task> Stepper<'a, T> {
    /// Makes a stepper with the optimizer that the config of a plan names, before its first step.
    /// `model` is on [`Plan::training_device`].
    ///
    /// # Errors
    /// As [`Plan::training_device`].
    pub fn new(task: &'a T, plan: &Plan, model: T::Model) -> Result<Self> {
        let optimizer = Optimizer::new(&plan.config.train, &model);
        Ok(Self::from_parts(StepperParts {
            task,
            model,
            optimizer,
            device: plan.training_device()?,
            seed: plan.config.seed,
        }))
    }

    /// Makes a stepper with an optimizer of the caller's, or on a device that no plan names.
    pub fn from_parts(parts: StepperParts<'a, T>) -> Self {
        Self {
            task: parts.task,
            model: Some(parts.model),
            optimizer: parts.optimizer,
            device: parts.device,
            seed: parts.seed,
            all_reduce: Box::new(single_process),
        }
    }

    /// Makes every step data-parallel: `all_reduce` adds the sums of the windows of several processes
    /// (all-reduce), each of which then makes the same update.
    pub fn set_all_reduce(&mut self, all_reduce: Box<AllReduce<'a>>) {
        self.all_reduce = all_reduce;
    }

    /// Runs the micro-batches of a window and updates the weights once, by the gradient of the mean
    /// over all their target tokens together. In a single process nothing is read from a GPU:
    /// [`StepRecord::read`] waits for the end of the step. Several processes read their sums to add
    /// them.
    ///
    /// On the CPU the shards of micro-batches run in parallel; the bits of the result do not depend
    /// on the number of threads.
    ///
    /// A step with a loss or a gradient that is not finite is skipped: it changes no weight, see
    /// [`Optimizer::step`].
    ///
    /// # Errors
    /// A thread cannot be started, or other processes cannot be reached; the weights are unchanged
    /// then. The model is gone (see [`Self::model`]).
    pub fn step(&mut self, window: &[MicroBatch<T>], args: StepArgs) -> Result<StepRecord> {
        self.observed_step(window, args, &|_, _| {})
    }

    /// Makes the same step, and calls `observe` after each phase of each shard, on the thread that
    /// made it, and after the update.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn observed_step(
        &mut self,
        window: &[MicroBatch<T>],
        args: StepArgs,
        observe: &OnPhase<'_>,
    ) -> Result<StepRecord> {
        let sums = self.window_sums(window, args, observe)?;
        // Before anything is changed: where another process cannot be reached, the weights are as
        // they were before the step.
        let sums = (self.all_reduce)(sums)?;
        let begin = Instant::now();
        let record = self.update(sums, args)?;
        observe(Phase::Update, begin);
        Ok(record)
    }

    /// Makes the forward and backward passes of a window.
    fn window_sums(
        &self,
        window: &[MicroBatch<T>],
        args: StepArgs,
        observe: &OnPhase<'_>,
    ) -> Result<WindowSums> {
        let context = self.context(observe)?;
        let key = StepKey {
            seed: self.seed,
            step: args.step,
            first_micro_batch: args.first_micro_batch,
        };
        let scale = self.optimizer.loss_scale();
        // On a GPU that multiplies in f16 or bf16, each weight is rounded once for all passes: joined
        // parameters here, in one operation, the others where they are first used.
        let rounded = RoundedOnce::begin();
        self.optimizer.round_weights(&rounded);
        context.forward_backward_window(window, key, scale.as_ref())
    }

    /// Makes the forward and the backward pass of one batch, so that the device compiles their
    /// kernels before the first step. Returns the gradients, so that their addition can be compiled,
    /// too.
    pub(super) fn warm_up_kernels(&self, batch: &BatchOf<T>) -> Result<Gradients> {
        let context = self.context(&|_, _| {})?;
        let loss = context.forward(context.model, batch, self.seed);
        Ok(loss.minimized.backward())
    }

    fn context<'s>(&'s self, observe: &'s OnPhase<'s>) -> Result<StepContext<'s, T>> {
        Ok(StepContext {
            task: self.task,
            model: self.model()?,
            device: &self.device,
            observe,
        })
    }

    fn update(&mut self, sums: WindowSums, args: StepArgs) -> Result<StepRecord> {
        let StepArgs { step, lr, .. } = args;
        // Copied first, since the optimizer consumes the sums and frees each gradient after its
        // last use.
        let loss_sum = sums.loss_sum.clone();
        let nll_sum = sums.nll_sum.clone();
        let num_tokens = sums.num_tokens;
        let num_positions = sums.num_positions;
        let num_real_positions = sums.num_real_positions;
        // Moved, not borrowed: a weight with one owner is updated in place.
        let model = self.model.take().context(NO_MODEL)?;
        let (model, grad_norm) = self.optimizer.step(model, sums, lr, step);
        self.model = Some(model);
        Ok(StepRecord {
            step,
            lr,
            loss_sum,
            nll_sum,
            grad_norm,
            num_tokens,
            num_positions,
            num_real_positions,
        })
    }

    /// Returns the model after the last step.
    ///
    /// # Errors
    /// The model is gone, because an update panicked or a checkpoint could not be restored.
    pub fn model(&self) -> Result<&T::Model> {
        self.model.as_ref().context(NO_MODEL)
    }

    /// Ends the training of the model, and returns it.
    ///
    /// # Errors
    /// As [`Self::model`].
    pub fn into_model(self) -> Result<T::Model> {
        self.model.context(NO_MODEL)
    }

    /// Returns the optimizer, with its state after the last step.
    pub fn optimizer(&self) -> &Optimizer {
        &self.optimizer
    }

    /// Returns the optimizer, whose state may be replaced between two steps.
    pub fn optimizer_mut(&mut self) -> &mut Optimizer {
        &mut self.optimizer
    }

    /// Returns the device of the steps.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Reads the weights and the state of the optimizer from the device, for a checkpoint.
    ///
    /// # Errors
    /// As [`Self::model`].
    pub(super) fn content(&self) -> Result<Content> {
        Ok(Content {
            model: parameter::read(self.model()?),
            optimizer: self.optimizer.state(),
            ema: self.optimizer.ema(),
        })
    }

    /// Replaces the weights by those of a checkpoint. The old ones are given up first, so that the
    /// device never holds both.
    ///
    /// # Errors
    /// A tensor is missing, left over, or of another shape. The model is gone then.
    pub(super) fn restore_model(&mut self, weights: Weights) -> Result<()> {
        let model = self.model.take().context(NO_MODEL)?;
        self.model = Some(load_weights(model, weights)?);
        Ok(())
    }

    /// Replaces the state of the optimizer by that of a checkpoint.
    ///
    /// # Errors
    /// A tensor is missing or of another shape.
    pub(super) fn restore_state(&mut self, mut state: Weights) -> Result<()> {
        let device = self.device.clone().inner();
        self.optimizer
            .restore_state(&device, |name, shape| state.take(name, shape))
    }

    /// Replaces the moving average of the weights, if there is one, by that of a checkpoint.
    ///
    /// # Errors
    /// A tensor is missing or of another shape.
    pub(super) fn restore_ema(&mut self, mut ema: Weights) -> Result<()> {
        let device = self.device.clone().inner();
        self.optimizer
            .restore_ema(&device, |name, shape| ema.take(name, shape))
    }
}
