//! One step: teacher forcing on every shard of every micro-batch of the window, the sums over all
//! of them, then one move of the weights.

use std::mem::take;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use polyglow_data::random::mix;
use polyglow_kernels::RoundedOnce;
use polyglow_model::{computes_on_host, dropout};
use polyglow_predict::error::Result;
use polyglow_predict::parallel::each;

use super::optimizer::Optimizer;
use super::sums::{GradientSum, SumAcross, WindowSums, alone};
use crate::tasks::{BatchOf, BatchSize, Loss, MicroBatch, Task};

/// What a step needs beside the model and the data.
#[derive(Clone, Copy, Debug)]
pub struct StepConfig {
    /// Seed of the run; with the step it decides the dropout.
    pub seed: u64,
    /// The step's number, from 1.
    pub step: u64,
    /// The learning rate of this step.
    pub lr: f64,
    /// The number, in the step, of the window's first micro-batch, from 0; others are elsewhere.
    pub first: usize,
}

/// What a step leaves behind, still on the device.
///
/// The step was skipped, and moved nothing, if one of the three tensors is not finite.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// The step's number, from 1.
    pub step: u64,
    /// The learning rate it was made with.
    pub lr: f64,
    /// Smoothed cross-entropy over the window in nats, without that of guided alignment, `[1]`.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing over the window in nats, `[1]`.
    pub nll_sum: Tensor<1>,
    /// Norm of the mean gradient before clipping, `[1]`.
    pub grad_norm: Tensor<1>,
    /// Target tokens in the window, without padding.
    pub num_tokens: usize,
    /// Positions in the window, source and target, with padding.
    pub num_positions: usize,
    /// Source and target tokens in the window, without padding.
    pub num_real_positions: usize,
}

/// The parts of a step. All but the last come once for each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Ids go to the device.
    Upload,
    /// The forward pass, with the loss; with kernels also with the gradients of the projection to
    /// the vocabulary.
    Forward,
    /// The backward pass.
    Backward,
    /// The move of the weights.
    Update,
}

/// Is told, in whichever thread it was, that a part of a step is done, and when it began.
pub type Observe<'a> = dyn Fn(Phase, Instant) + Sync + 'a;

/// Runs the micro-batches of a window and moves the weights once, by the gradient of the mean over
/// all their target tokens together. Nothing is read from a GPU.
///
/// On the CPU the shards of micro-batches run side by side. Their gradients are added in order,
/// first those of each micro-batch and then those of the window, so that the result does not depend
/// on the number of threads.
///
/// A step with a loss or a gradient that is not finite is skipped: it moves nothing, see
/// [`Optimizer::step`].
///
/// # Errors
/// A thread cannot be started; the model is dropped.
pub fn step<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[MicroBatch<T>],
    device: &Device,
    config: StepConfig,
) -> Result<(T::Model, StepRecord)> {
    step_across(task, model, optimizer, window, device, config, &mut alone)
}

/// The same step, with `observe` told of its parts.
///
/// # Errors
/// As [`step`].
pub fn observed_step<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[MicroBatch<T>],
    device: &Device,
    config: StepConfig,
    observe: &Observe<'_>,
) -> Result<(T::Model, StepRecord)> {
    let sums = sum_window(task, &model, optimizer, window, device, config, observe)?;
    let begin = Instant::now();
    let updated = update(model, optimizer, sums, config);
    observe(Phase::Update, begin);
    Ok(updated)
}

/// The same step as a part of one over the windows of several processes, whose sums `across` adds.
///
/// # Errors
/// As [`step`], and that of `across`.
pub fn step_across<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[MicroBatch<T>],
    device: &Device,
    config: StepConfig,
    across: &mut SumAcross<'_>,
) -> Result<(T::Model, StepRecord)> {
    let sums = across(sum_window(
        task,
        &model,
        optimizer,
        window,
        device,
        config,
        &|_, _| {},
    )?)?;
    Ok(update(model, optimizer, sums, config))
}

/// What comes of a shard.
struct Passed {
    gradients: GradientSum,
    loss_sum: Tensor<1>,
    nll_sum: Tensor<1>,
}

/// Forward and backward passes of a window, without an update.
fn sum_window<T: Task>(
    task: &T,
    model: &T::Model,
    optimizer: &Optimizer,
    window: &[MicroBatch<T>],
    device: &Device,
    config: StepConfig,
    observe: &Observe<'_>,
) -> Result<WindowSums> {
    let scale = optimizer.loss_scale();
    let rounded = RoundedOnce::begin();
    optimizer.round_weights(&rounded);
    let places = (0..)
        .zip(window)
        .flat_map(|(micro_batch, shards)| (0..shards.len()).map(move |shard| (micro_batch, shard)));
    let places: Vec<(usize, usize)> = places.collect();
    // No more at once than a micro-batch has, so that activations take no more memory than those of
    // one.
    let most = window.iter().map(Vec::len).max().unwrap_or(1);
    let on_host = computes_on_host(device);
    let threads = if on_host {
        rayon::current_num_threads().min(most)
    } else {
        1
    };
    let pass = |place: usize| {
        let (micro_batch, shard) = places[place];
        let number = (config.first + micro_batch) as u64;
        let key = mix(&[config.seed, config.step, number, shard as u64]);
        // A graph with a leaf in common would be one graph, on which threads wait for each other.
        let own = (threads > 1).then(|| model.clone().fork(device));
        let (model, batch) = (own.as_ref().unwrap_or(model), &window[micro_batch][shard]);
        let Loss {
            minimized,
            loss_sum,
            nll_sum,
        } = forward(task, model, batch, device, key, observe);
        let minimized = match &scale {
            Some(scale) => scaled(minimized, scale),
            None => minimized,
        };
        let begin = Instant::now();
        let mut gradients = GradientSum::default();
        gradients.add(model, minimized.backward());
        observe(Phase::Backward, begin);
        Ok(Passed {
            gradients,
            loss_sum: loss_sum.inner(),
            nll_sum: nll_sum.inner(),
        })
    };
    // On one of the pool's threads: from another, each small operation would wake one and wait for
    // it.
    let pass = |place: usize| {
        if on_host {
            rayon::scope(|_| pass(place))
        } else {
            pass(place)
        }
    };
    let (mut losses, mut gradients) = (Losses::default(), GradientSum::default());
    let (mut own_losses, mut own_gradients) = (Losses::default(), GradientSum::default());
    each(places.len(), threads, pass, |place, passed| {
        own_gradients.merge(passed.gradients);
        own_losses.push(passed.loss_sum, passed.nll_sum);
        let (micro_batch, shard) = places[place];
        if shard + 1 == window[micro_batch].len() {
            gradients.merge(take(&mut own_gradients));
            let (loss_sum, nll_sum) = take(&mut own_losses).total(device);
            losses.push(loss_sum, nll_sum);
        }
    })?;
    // Elsewhere there may be batches where here are none.
    if places.is_empty() {
        gradients.add_nothing(model);
    }
    let (loss_sum, nll_sum) = losses.total(device);
    let sizes: Vec<BatchSize> = window
        .iter()
        .flatten()
        .map(|shard| task.size(shard))
        .collect();
    Ok(WindowSums {
        gradients,
        loss_sum,
        nll_sum,
        num_tokens: sizes.iter().map(|size| size.targets).sum(),
        num_positions: sizes.iter().map(|size| size.shape.positions()).sum(),
        num_real_positions: sizes.iter().map(|size| size.real_positions).sum(),
    })
}

fn scaled(loss: Tensor<1>, scale: &Tensor<1>) -> Tensor<1> {
    let scale = Tensor::from_inner(scale.clone());
    // Both sides of a product must keep, or compute again, in the same way.
    let scale = match loss.gradient_checkpointing_strategy() {
        Some(strategy) => scale.with_gradient_checkpointing_strategy(strategy),
        None => scale,
    };
    loss * scale
}

/// Losses that are summed together, which need one operation then, and not one each.
#[derive(Default)]
struct Losses {
    smoothed: Vec<Tensor<1>>,
    plain: Vec<Tensor<1>>,
}

impl Losses {
    fn push(&mut self, loss_sum: Tensor<1>, nll_sum: Tensor<1>) {
        self.smoothed.push(loss_sum);
        self.plain.push(nll_sum);
    }

    fn total(self, device: &Device) -> (Tensor<1>, Tensor<1>) {
        let total = |mut sums: Vec<Tensor<1>>| match sums[..] {
            [] => Tensor::zeros([1], &device.clone().inner()),
            [_] => sums.remove(0),
            [..] => Tensor::cat(sums, 0).sum(),
        };
        (total(self.smoothed), total(self.plain))
    }
}

fn update<M: Module>(
    model: M,
    optimizer: &mut Optimizer,
    sums: WindowSums,
    config: StepConfig,
) -> (M, StepRecord) {
    let StepConfig { step, lr, .. } = config;
    let WindowSums {
        num_tokens,
        num_positions,
        num_real_positions,
        ..
    } = sums;
    let (loss_sum, nll_sum) = (sums.loss_sum.clone(), sums.nll_sum.clone());
    let (model, grad_norm) = optimizer.step(model, sums, lr, step);
    (
        model,
        StepRecord {
            step,
            lr,
            loss_sum,
            nll_sum,
            grad_norm,
            num_tokens,
            num_positions,
            num_real_positions,
        },
    )
}

/// The loss of one batch; `key` decides its dropout.
pub(super) fn forward<T: Task>(
    task: &T,
    model: &T::Model,
    batch: &BatchOf<T>,
    device: &Device,
    key: u64,
    observe: &Observe<'_>,
) -> Loss {
    let begin = Instant::now();
    let inputs = task.upload(batch, device);
    observe(Phase::Upload, begin);
    let begin = Instant::now();
    let loss = dropout::keyed(key, || task.loss(model, inputs));
    observe(Phase::Forward, begin);
    loss
}
