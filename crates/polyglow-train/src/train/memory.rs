//! How much memory a training takes, by a formula.

use std::fs;

use burn::module::Module;
use polyglow_model::{ModelShape, parameter};
use serde::Serialize;

use super::optimizer::{rule, state_len};
use crate::config::TrainConfig;
use crate::workload::BatchShape;

/// Bytes of an `f32`, in which everything is computed.
pub(super) const FLOAT: u64 = 4;

/// What training takes on the device, in bytes.
///
/// With `P` parameters, `4 P` bytes each for the weights, the gradients (twice that where they are summed over
/// micro-batches) and the moving average of the weights where one is kept, and what the optimizer keeps: `8 P` for Adam,
/// `4 P` for Lion, and for Adafactor 4 for each row and each column of a matrix and for each other value.
///
/// To these come the activations that the forward pass keeps for the backward pass (`ModelShape::activations`), 4 bytes
/// each. On the CPU the sum is within a third of the truth for a Transformer; a GPU adds what its kernels and its
/// allocator need, and takes less with `train.precision = "bf16"` or `train.gradient_checkpointing`, of which this knows
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryEstimate {
    /// The weights.
    pub weights: u64,
    /// Their gradients.
    pub gradients: u64,
    /// The optimizer's state.
    pub optimizer: u64,
    /// The exponential moving average of the weights.
    pub ema: u64,
    /// What the forward pass keeps of the largest batch for the backward pass.
    pub activations: u64,
    /// All of it.
    pub total: u64,
}

impl MemoryEstimate {
    /// The estimate for `model`, which is of this shape, and this largest batch, with kernels or without.
    pub fn new(
        shape: &ModelShape,
        train: &TrainConfig,
        model: &impl Module,
        largest: BatchShape,
        kernels: bool,
    ) -> Self {
        let weights = FLOAT * parameter::count(model) as u64;
        let gradients = if train.accumulate_steps > 1 { 2 * weights } else { weights };
        let optimizer = FLOAT * state_len(&*rule(train), model) as u64;
        let ema = if train.ema_decay > 0.0 { weights } else { 0 };
        let activations = activations(shape, largest, kernels);
        let total = weights + gradients + optimizer + ema + activations;
        Self { weights, gradients, optimizer, ema, activations, total }
    }
}

/// Bytes that the forward pass keeps for the backward pass.
pub fn activations(model: &ModelShape, batch: BatchShape, kernels: bool) -> u64 {
    FLOAT * model.activations([batch.rows, batch.src_len, batch.tgt_len], kernels)
}

/// Peak memory of this process, in bytes; `None` if the system does not report it.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Memory that the system could give to a process, in bytes; none where it does not tell.
pub fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
