//! How much memory a training takes, by a formula.

use std::fs;

use polyglow_model::{Activation, TransformerConfig};
use serde::Serialize;

use crate::train::TrainConfig;
use crate::workload::BatchShape;

/// Bytes of an `f32`, in which everything is computed.
const FLOAT: u64 = 4;

/// What training takes on the device, in bytes.
///
/// With `P` parameters, `4 P` bytes each for the weights, the gradients (twice that where they are summed over
/// micro-batches), both of Adam's moments, and the moving average of the weights where one is kept.
///
/// To these come the activations that the forward pass keeps for the backward pass, in numbers of 4 bytes per position.
/// Where the kernels of polyglow-kernels run: 8 `d_model` in an encoder layer and 12 in a decoder layer (inputs of
/// projections, queries, keys, values, standardized sums); `d_ff`, or 4 of it with another activation than ReLU; an
/// attention weight per head and key; and the target vocabulary once in the loss. Elsewhere 12 and 19 `d_model`, and one
/// more for each dropout mask; 2 or 4 `d_ff`; 2 attention weights; and 3 times the vocabulary. To both come 2 `d_model`
/// in the embedding. On the CPU the sum is within a third of the truth; a GPU adds what its kernels and its allocator
/// need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryEstimate {
    /// The weights.
    pub weights: u64,
    /// Their gradients.
    pub gradients: u64,
    /// Adam's moments.
    pub optimizer: u64,
    /// The moving average of the weights.
    pub average: u64,
    /// What the forward pass keeps of the largest batch for the backward pass.
    pub activations: u64,
    /// All of it.
    pub total: u64,
}

impl MemoryEstimate {
    /// The estimate for a model with `parameters` trained values and this largest batch, with kernels or without.
    pub fn new(
        model: &TransformerConfig,
        train: &TrainConfig,
        parameters: usize,
        largest: BatchShape,
        kernels: bool,
    ) -> Self {
        let weights = FLOAT * parameters as u64;
        let gradients = if train.accumulate_steps > 1 { 2 * weights } else { weights };
        let optimizer = 2 * weights;
        let average = if train.ema_decay > 0.0 { weights } else { 0 };
        let activations = activations(model, largest, kernels);
        let total = weights + gradients + optimizer + average + activations;
        Self { weights, gradients, optimizer, average, activations, total }
    }
}

/// Bytes that the forward pass keeps for the backward pass, as [`MemoryEstimate`] explains.
pub(super) fn activations(model: &TransformerConfig, batch: BatchShape, kernels: bool) -> u64 {
    let count = |number: usize| number as u64;
    let (src, tgt) = (count(batch.rows * batch.src_len), count(batch.rows * batch.tgt_len));
    let (src_len, tgt_len) = (count(batch.src_len), count(batch.tgt_len));
    let (d_model, d_ff, num_heads) = (count(model.d_model), count(model.d_ff), count(model.num_heads));
    let mask = if model.dropout > 0.0 && !kernels { d_model } else { 0 };
    let hidden = d_ff
        * match model.activation {
            Activation::Relu if kernels => 1,
            Activation::Relu | Activation::Gelu if !kernels => 2,
            _ => 4,
        };
    let heads = num_heads * if kernels { 1 } else { 2 + u64::from(model.attention_dropout > 0.0) };
    let [of_encoder, of_decoder, of_vocabulary] = if kernels { [8, 12, 1] } else { [12, 19, 3] };
    let encoder = src * (of_encoder * d_model + 2 * mask + hidden + heads * src_len);
    let decoder = tgt * (of_decoder * d_model + 3 * mask + hidden + heads * (tgt_len + src_len)) + 2 * src * d_model;
    let embeddings = (src + tgt) * (2 * d_model + mask);
    let logits = of_vocabulary * tgt * count(model.tgt_vocab_size);
    let layers = count(model.num_encoder_layers) * encoder + count(model.num_decoder_layers) * decoder;
    FLOAT * (layers + embeddings + logits)
}

/// The most memory that this process has ever taken, in bytes; none where the system does not tell.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// A number of bytes for people: `312 MiB`.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
