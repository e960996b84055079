//! The Transformer as a [`NextToken`]: cached decoding, with one read from the device per position.

use burn::tensor::{Int, Tensor, TensorData, Transaction, activation::log_softmax};

use super::{Candidate, NextToken};
use crate::Transformer;
use crate::cache::DecoderCache;

/// A model in the middle of translating some rows.
#[derive(Debug)]
pub struct Incremental<'a> {
    model: &'a Transformer,
    cache: DecoderCache,
    forbidden: Vec<u32>,
}

impl<'a> Incremental<'a> {
    /// Reads the source; `forbidden` ids never come next.
    ///
    /// # Shapes
    /// - `src`: `[rows, src_len]`, each row with its end mark and padding behind
    pub fn new(model: &'a Transformer, src: Tensor<2, Int>, forbidden: &[u32]) -> Self {
        let cache = model.start(&model.encode(src));
        Self { model, cache, forbidden: forbidden.to_vec() }
    }
}

impl NextToken for Incremental<'_> {
    fn advance(&mut self, newest: &[u32], count: usize) -> Vec<Vec<Candidate>> {
        let device = self.cache.src_pad_mask.device();
        let newest = newest.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new::<i32, _>(newest, [self.cache.rows(), 1]), &device);
        let mut log_probs = log_softmax(self.model.advance(ids, &mut self.cache), 1);
        let [rows, vocab_size] = log_probs.dims();
        for &id in &self.forbidden {
            log_probs = log_probs.slice_fill([0..rows, id as usize..id as usize + 1], f32::NEG_INFINITY);
        }
        let count = count.min(vocab_size);
        if count > 1 && self.model.on_host() {
            return best_on_host(log_probs, count);
        }
        let (values, ids) = match count {
            1 => log_probs.max_dim_with_indices(1),
            _ => log_probs.topk_with_indices(count, 1),
        };
        let read = Transaction::default().register(values).register(ids).execute();
        let values: Vec<f32> = read[0].iter::<f32>().collect();
        let ids: Vec<u32> = read[1].iter::<u32>().collect();
        let candidates: Vec<Candidate> =
            ids.iter().zip(values).map(|(&id, log_prob)| Candidate { id, log_prob }).collect();
        candidates.chunks(count).map(<[Candidate]>::to_vec).collect()
    }

    fn select(&mut self, rows: &[usize]) {
        self.cache.select(rows);
    }
}

/// The best of each row, found where the numbers already lie: a CPU backend would sort whole rows.
///
/// # Shapes
/// - `log_probs`: `[rows, vocab_size]`
fn best_on_host(log_probs: Tensor<2>, count: usize) -> Vec<Vec<Candidate>> {
    let [_, vocab_size] = log_probs.dims();
    let values: Vec<f32> = log_probs.into_data().iter::<f32>().collect();
    values.chunks(vocab_size).map(|row| best_of_row(row, count)).collect()
}

fn best_of_row(row: &[f32], count: usize) -> Vec<Candidate> {
    let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
    for (id, &log_prob) in (0u32..).zip(row) {
        if best.len() == count && log_prob <= best[count - 1].log_prob {
            continue;
        }
        let place = best.partition_point(|candidate| candidate.log_prob >= log_prob);
        best.insert(place, Candidate { id, log_prob });
        best.truncate(count);
    }
    best
}
