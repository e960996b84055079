//! Embeddings: two ways to look them up, whose backward passes differ from device to device.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use polyglow_model::embedding::{Lookup, lookup};
use serde::Serialize;

use super::{Material, Spread};
use polyglow_train::config::Config;
use polyglow_train::device::upload;
use polyglow_train::train::training_device;
use polyglow_train::workload::BatchShape;

/// Rounds that are not measured: kernels are compiled in them.
const WARMUP: u64 = 2;

/// Lookups in a table, with their backward passes.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddingReport {
    /// Name of the device.
    pub device: String,
    /// Rows of the table.
    pub vocab_size: usize,
    /// Numbers in a row.
    pub d_model: usize,
    /// Each batch in both ways.
    pub lookups: Vec<LookupTimes>,
}

/// One way, for the source side of one batch.
#[derive(Clone, Debug, Serialize)]
pub struct LookupTimes {
    /// The batch.
    pub batch: BatchShape,
    /// `rows` or `numbers`, as [`Lookup`] has them.
    pub lookup: &'static str,
    /// Forward and backward pass together.
    pub time: Spread,
}

/// Measures `rounds` rounds on the source side of each batch, in which both ways take turns.
///
/// # Errors
/// The device fails.
pub fn bench_embedding(
    config: &Config,
    material: &Material,
    device: &Device,
    rounds: u64,
) -> anyhow::Result<EmbeddingReport> {
    let (vocab_size, d_model) = (material.model.vocabulary().src_size, material.model.d_model());
    let training = training_device(config, device)?;
    let table = Tensor::<2>::ones([vocab_size, d_model], &training).require_grad();
    let mut lookups = Vec::new();
    for batch in &material.batches {
        let shape = BatchShape { rows: batch.batch_size, src_len: batch.src_len, tgt_len: batch.tgt_len };
        let mut ways = [("rows", Lookup::Rows, Vec::new()), ("numbers", Lookup::Numbers, Vec::new())];
        for round in 0..WARMUP + rounds {
            for (_, how, seconds) in &mut ways {
                let ids = upload(batch.src.clone(), batch.src_len, &training);
                device.sync()?;
                let started = Instant::now();
                let grads = lookup(table.clone(), ids, 1.0, *how).sum().backward();
                // Held until the device is done, so that it has to be computed.
                let gradient = table.grad(&grads);
                device.sync()?;
                if round >= WARMUP {
                    seconds.push(started.elapsed().as_secs_f64());
                }
                drop(gradient);
            }
        }
        let times =
            ways.map(|(name, _, seconds)| LookupTimes { batch: shape, lookup: name, time: Spread::of(seconds) });
        lookups.extend(times);
    }
    Ok(EmbeddingReport { device: config.device.clone(), vocab_size, d_model, lookups })
}
