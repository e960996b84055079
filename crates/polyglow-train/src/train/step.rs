//! One step: teacher forcing on every micro-batch of the window, the sums over all of them, then one move of the weights.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use polyglow_data::random::mix;
use polyglow_model::dropout;

use super::optimizer::Optimizer;
use super::sums::{GradientSum, SumAcross, WindowSums};
use crate::error::Result;
use crate::tasks::{BatchOf, BatchSize, Loss, Task};
use crate::workload::BatchShape;

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

/// The parts of a step. All but the last come once for each micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A micro-batch of this shape begins.
    Begin(BatchShape),
    /// Ids go to the device.
    Upload,
    /// The forward pass, with the loss; with kernels also with the gradients of the projection to the vocabulary.
    Forward,
    /// The backward pass, with the addition of its gradients to those before.
    Backward,
    /// The move of the weights.
    Update,
}

/// Runs the micro-batches of a window and moves the weights once, by the gradient of the mean over all their target
/// tokens together. Nothing is read from a GPU.
///
/// A step with a loss or a gradient that is not finite is skipped: it moves nothing, see [`Optimizer::step`].
pub fn step<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[BatchOf<T>],
    device: &Device,
    config: StepConfig,
) -> (T::Model, StepRecord) {
    observed_step(task, model, optimizer, window, device, config, &mut |_| {})
}

/// The same step, with `observe` called at the begin of each micro-batch and at the end of each of its parts.
pub fn observed_step<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[BatchOf<T>],
    device: &Device,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> (T::Model, StepRecord) {
    let sums = sum_window(task, &model, window, device, config, observe);
    update(model, optimizer, sums, config, observe)
}

/// The same step as a part of one over the windows of several processes, whose sums `across` adds.
///
/// # Errors
/// That of `across`; the model is dropped.
#[expect(clippy::too_many_arguments, reason = "a step is made of all of these, and each is of another kind")]
pub fn step_across<T: Task>(
    task: &T,
    model: T::Model,
    optimizer: &mut Optimizer,
    window: &[BatchOf<T>],
    device: &Device,
    config: StepConfig,
    across: &mut SumAcross<'_>,
    observe: &mut dyn FnMut(Phase),
) -> Result<(T::Model, StepRecord)> {
    let sums = across(sum_window(task, &model, window, device, config, observe))?;
    Ok(update(model, optimizer, sums, config, observe))
}

/// Forward and backward passes of a window, without an update.
fn sum_window<T: Task>(
    task: &T,
    model: &T::Model,
    window: &[BatchOf<T>],
    device: &Device,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> WindowSums {
    let mut gradients = GradientSum::default();
    if window.is_empty() {
        gradients.add_nothing(model);
    }
    let (mut loss_sums, mut nll_sums) = (Vec::new(), Vec::new());
    for (micro_batch, batch) in (config.first..).zip(window) {
        let key = mix(&[config.seed, config.step, micro_batch as u64]);
        let Loss { minimized, loss_sum, nll_sum } = forward(task, model, batch, device, key, observe);
        gradients.add(model, minimized.backward());
        observe(Phase::Backward);
        loss_sums.push(loss_sum.inner());
        nll_sums.push(nll_sum.inner());
    }
    // Elsewhere there may be batches where here are none.
    let total = |sums: Vec<Tensor<1>>| match sums[..] {
        [] => Tensor::zeros([1], &device.clone().inner()),
        [..] => Tensor::cat(sums, 0).sum(),
    };
    let sizes: Vec<BatchSize> = window.iter().map(|batch| task.size(batch)).collect();
    WindowSums {
        gradients,
        loss_sum: total(loss_sums),
        nll_sum: total(nll_sums),
        num_tokens: sizes.iter().map(|size| size.targets).sum(),
        num_positions: sizes.iter().map(|size| size.shape.positions()).sum(),
        num_real_positions: sizes.iter().map(|size| size.real_positions).sum(),
    }
}

fn update<M: Module>(
    model: M,
    optimizer: &mut Optimizer,
    sums: WindowSums,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> (M, StepRecord) {
    let StepConfig { step, lr, .. } = config;
    let WindowSums { num_tokens, num_positions, num_real_positions, .. } = sums;
    let (loss_sum, nll_sum) = (sums.loss_sum.clone(), sums.nll_sum.clone());
    let (model, grad_norm) = optimizer.step(model, sums, lr, step);
    observe(Phase::Update);
    (model, StepRecord { step, lr, loss_sum, nll_sum, grad_norm, num_tokens, num_positions, num_real_positions })
}

/// The loss of one micro-batch; `key` decides its dropout.
pub(super) fn forward<T: Task>(
    task: &T,
    model: &T::Model,
    batch: &BatchOf<T>,
    device: &Device,
    key: u64,
    observe: &mut dyn FnMut(Phase),
) -> Loss {
    observe(Phase::Begin(task.size(batch).shape));
    let inputs = task.upload(batch, device);
    observe(Phase::Upload);
    let loss = dropout::keyed(key, || task.loss(model, inputs));
    observe(Phase::Forward);
    loss
}
