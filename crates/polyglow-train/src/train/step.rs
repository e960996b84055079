//! One step: teacher forcing on every micro-batch of the window, the sums over all of them, then one move of the weights.

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_data::batch::Batch;
use polyglow_data::random::mix;
use polyglow_model::{LossOutput, Model, alignment_loss};

use super::optimizer::Optimizer;
use super::sums::{GradientSum, SumAcross, WindowSums};
use crate::device::upload;
use crate::error::Result;
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
    /// Share of the target's probability that is spread over all tokens.
    pub label_smoothing: f64,
    /// Weight of the guided alignment, in batches with alignments.
    pub alignment_weight: f64,
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
/// tokens together. Nothing is read from a device other than the host.
///
/// A step with a loss or a gradient that is not finite is skipped: it moves nothing, see [`Optimizer::step`].
pub fn step(
    model: Model,
    optimizer: &mut Optimizer,
    window: &[Batch],
    device: &Device,
    config: StepConfig,
) -> (Model, StepRecord) {
    observed_step(model, optimizer, window, device, config, &mut |_| {})
}

/// The same step, with `observe` called at the begin of each micro-batch and at the end of each of its parts.
pub fn observed_step(
    model: Model,
    optimizer: &mut Optimizer,
    window: &[Batch],
    device: &Device,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> (Model, StepRecord) {
    let sums = sum_window(&model, window, device, config, observe);
    update(model, optimizer, sums, config, observe)
}

/// The same step as a part of one over the windows of several processes, whose sums `across` adds.
///
/// # Errors
/// That of `across`; the model is dropped.
pub fn step_across(
    model: Model,
    optimizer: &mut Optimizer,
    window: &[Batch],
    device: &Device,
    config: StepConfig,
    across: &mut SumAcross<'_>,
    observe: &mut dyn FnMut(Phase),
) -> Result<(Model, StepRecord)> {
    let sums = across(sum_window(&model, window, device, config, observe))?;
    Ok(update(model, optimizer, sums, config, observe))
}

/// Forward and backward passes of a window, without an update.
fn sum_window(
    model: &Model,
    window: &[Batch],
    device: &Device,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> WindowSums {
    let mut gradients = GradientSum::default();
    let (mut loss_sums, mut nll_sums) = (Vec::new(), Vec::new());
    for (micro_batch, batch) in window.iter().enumerate() {
        let seed = mix(&[config.seed, config.step, micro_batch as u64]);
        let (LossOutput { loss_sum, nll_sum }, minimized) = forward(model, batch, device, config, seed, observe);
        gradients.add(model, minimized.backward());
        observe(Phase::Backward);
        loss_sums.push(loss_sum.inner());
        nll_sums.push(nll_sum.inner());
    }
    WindowSums {
        gradients,
        loss_sum: Tensor::cat(loss_sums, 0).sum(),
        nll_sum: Tensor::cat(nll_sums, 0).sum(),
        num_tokens: window.iter().map(Batch::num_target_tokens).sum(),
        num_positions: window.iter().map(Batch::num_positions).sum(),
        num_real_positions: window.iter().map(|batch| batch.num_source_tokens() + batch.num_target_tokens()).sum(),
    }
}

fn update(
    model: Model,
    optimizer: &mut Optimizer,
    sums: WindowSums,
    config: StepConfig,
    observe: &mut dyn FnMut(Phase),
) -> (Model, StepRecord) {
    let StepConfig { step, lr, .. } = config;
    let WindowSums { num_tokens, num_positions, num_real_positions, .. } = sums;
    let (loss_sum, nll_sum) = (sums.loss_sum.clone(), sums.nll_sum.clone());
    let (model, grad_norm) = optimizer.step(model, sums, lr, step);
    observe(Phase::Update);
    (model, StepRecord { step, lr, loss_sum, nll_sum, grad_norm, num_tokens, num_positions, num_real_positions })
}

/// The loss of one micro-batch, and what is to be differentiated, `[1]`: the same, or with guided alignment their sum.
pub(super) fn forward(
    model: &Model,
    batch: &Batch,
    device: &Device,
    config: StepConfig,
    seed: u64,
    observe: &mut dyn FnMut(Phase),
) -> (LossOutput, Tensor<1>) {
    observe(Phase::Begin(BatchShape::of(batch)));
    device.seed(seed);
    let ids = |values: &[i32], len| upload(values.to_vec(), len, device);
    let (src, tgt_in) = (ids(&batch.src, batch.src_len), ids(&batch.tgt_in, batch.tgt_len));
    let targets = ids(&batch.tgt_out, batch.tgt_len).flatten(0, 1);
    observe(Phase::Upload);
    let losses = match &batch.gold_attention {
        Some(gold) if config.alignment_weight > 0.0 => {
            let shape = [batch.batch_size, batch.tgt_len, batch.src_len];
            let gold = Tensor::from_data(TensorData::new(gold.clone(), shape), device);
            let (prediction, attention) = model.predict_aligned(src, tgt_in);
            let loss = prediction.loss(targets, config.label_smoothing, model.vocabulary().tgt_pad_id);
            let guided = attention.map(|attention| alignment_loss(attention, gold) * config.alignment_weight);
            let minimized = guided.into_iter().fold(loss.loss_sum.clone(), |sum, guided| sum + guided);
            (loss, minimized)
        }
        _ => {
            let loss = model.loss(src, tgt_in, targets, config.label_smoothing);
            let minimized = loss.loss_sum.clone();
            (loss, minimized)
        }
    };
    observe(Phase::Forward);
    losses
}
