//! Times two ways to look up embeddings, forward and backward pass together:
//! `cargo bench -p polyglow-kernels`.
//!
//! They differ in how the backward pass adds up the gradients of equal tokens.
//! `--features burn/cuda` with `BURN_DEVICE=cuda` measures a GPU. Prints medians over rounds, in
//! which both ways alternate.
#![expect(clippy::print_stdout, reason = "the result")]

use std::time::Instant;

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_kernels::embedding;

const VOCAB_SIZE: usize = 32_000;
const D_MODEL: usize = 512;
/// Kernels are compiled in the first rounds, which are not measured.
const WARMUP: usize = 2;
const ROUNDS: usize = 9;

type Lookup = fn(Tensor<2>, Tensor<2, Int>) -> Tensor<3>;

/// Looks up embeddings with a gather, whose backward pass is a scatter: a thread for each element,
/// which on GPUs adds to memory atomically.
fn by_elements(table: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    let [batch, len] = ids.dims();
    let ids = ids.reshape([batch * len, 1]).expand([batch * len, D_MODEL]);
    table.gather(0, ids).reshape([batch, len, D_MODEL])
}

/// Returns the seconds that a forward and a backward pass take.
fn seconds(lookup: Lookup, table: &Tensor<2>, ids: &TensorData, device: &Device) -> f64 {
    let ids = Tensor::from_data(ids.clone(), device);
    device.sync().expect("the device works");
    let started = Instant::now();
    let gradients = lookup(table.clone(), ids).sum().backward();
    // Held until the device is done, so that the gradient has to be computed.
    let gradient = table.grad(&gradients);
    device.sync().expect("the device works");
    let seconds = started.elapsed().as_secs_f64();
    drop(gradient);
    seconds
}

fn main() {
    let device = Device::default().autodiff();
    let table = Tensor::<2>::ones([VOCAB_SIZE, D_MODEL], &device).require_grad();
    for [batch, len] in [[8, 16], [64, 24], [128, 32]] {
        // As in a corpus: most tokens are among the first of the vocabulary.
        let id = |position: usize| {
            (VOCAB_SIZE as f64).powf((position as f64 * 0.618_034).fract()) as i32 - 1
        };
        let ids = TensorData::new((0..batch * len).map(id).collect::<Vec<_>>(), [batch, len]);
        let by_rows: Lookup = |table, ids| embedding(table, ids, 1.0);
        let mut times = [by_rows, by_elements].map(|lookup| (lookup, Vec::new()));
        for round in 0..WARMUP + ROUNDS {
            for (lookup, times) in &mut times {
                let time = seconds(*lookup, &table, &ids, &device);
                times.extend((round >= WARMUP).then_some(time * 1e3));
            }
        }
        let [rows, elements] = times.map(|(_, mut times)| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        println!("{batch} x {len} tokens: {rows:.2} ms by rows, {elements:.2} ms by elements");
    }
}
