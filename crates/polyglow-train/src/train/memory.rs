//! The memory that a training takes, by a formula.

use std::fs;

use burn::module::Module;
use polyglow_data::sources::num_shards;
use polyglow_model::{ModelShape, parameter};
use serde::Serialize;

use super::optimizer::{rule, state_len};
use crate::plan::Plan;
use crate::workload::BatchShape;

/// Bytes of an `f32`, in which everything is computed.
pub(super) const FLOAT: u64 = 4;

/// The memory that training takes on the device, in bytes.
///
/// With `P` parameters, `4 P` bytes for the weights, for the gradients of each shard that is worked
/// on, for their sum where there are several, for the sum over micro-batches where there are
/// several, and for the moving average of the weights where one is kept, and what the optimizer
/// keeps: `8 P` for Adam, `4 P` for Lion, and for Adafactor 4 for each row and each column of a
/// matrix and for each other value.
///
/// To these come the activations that the forward pass keeps for the backward pass
/// (`ModelShape::activations`), 4 bytes each, of the shards that are worked on: on a CPU with few
/// cores these are not all. On one core the sum is within a third of the truth for a Transformer;
/// on several, less is taken where the peaks of shards miss each other. A GPU adds what its
/// allocator needs, keeps no weights of attention, and takes less with `train.precision` of 16
/// bits, of which this knows nothing.
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
    /// The values of the largest batch that forward passes in progress keep for the backward pass.
    pub activations: u64,
    /// All of it.
    pub total: u64,
}

impl MemoryEstimate {
    /// Estimates the training of `model`, which is of this shape, with this largest batch.
    pub fn new(plan: &Plan, shape: &ModelShape, model: &impl Module, largest: BatchShape) -> Self {
        let train = &plan.config.train;
        let weights = FLOAT * parameter::count(model) as u64;
        let shards = Shards::new(plan, largest);
        let sums = u64::from(shards.all > 1) + u64::from(train.accumulate_steps > 1);
        let gradients = (shards.at_once + sums) * weights;
        let optimizer = FLOAT * state_len(&*rule(train), model) as u64;
        let ema = if train.ema_decay > 0.0 { weights } else { 0 };
        let activations = activations(plan, shape, largest);
        let total = weights + gradients + optimizer + ema + activations;
        Self {
            weights,
            gradients,
            optimizer,
            ema,
            activations,
            total,
        }
    }
}

/// Estimates the bytes of a batch that forward passes in progress keep for the backward pass. With
/// a few more positions a batch may have more shards, so that a smaller part of it is in progress.
pub fn activations(plan: &Plan, model: &ModelShape, batch: BatchShape) -> u64 {
    let sizes = [batch.rows, batch.src_len, batch.tgt_len];
    let whole = FLOAT * model.activations(sizes, plan.has_kernels);
    let shards = Shards::new(plan, batch);
    whole * shards.at_once / shards.all
}

/// The shards of a batch.
struct Shards {
    all: u64,
    at_once: u64,
}

impl Shards {
    fn new(plan: &Plan, batch: BatchShape) -> Self {
        let all = num_shards(batch.positions(), plan.most_shards());
        Self {
            all: all as u64,
            at_once: all.min(rayon::current_num_threads()) as u64,
        }
    }
}

/// Returns the peak memory of this process, in bytes; `None` if the system does not report it.
pub fn peak_memory() -> Option<u64> {
    proc_value("/proc/self/status", "VmHWM:")
}

/// Returns the memory that the system could give to a process, in bytes; `None` if it does not
/// report it.
pub fn available_memory() -> Option<u64> {
    proc_value("/proc/meminfo", "MemAvailable:")
}

/// Reads a value from a file of Linux's `/proc`, which has lines such as `VmHWM:  1024 kB`; returns
/// it in bytes.
fn proc_value(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes = value.trim().strip_suffix("kB")?.trim();
    Some(kibibytes.parse::<u64>().ok()? * 1024)
}
