//! A model as a [`Scorer`]: cached decoding, with one read from the device per position.

use burn::tensor::{Device, Int, Tensor, TensorData, Transaction, activation::log_softmax};
use polyglow_kernels::log_sum_exp;
use rayon::prelude::*;

use super::{Candidate, Scorer};
use crate::{Generate, Model, Source, computes_on_host, mean_of_probabilities};

/// If more than 1/`SORTED_SHARE` of the vocabulary is selected, the whole row is sorted: selection
/// by insertion is not faster then.
const SORTED_SHARE: usize = 4;
/// Values of a row that are compared together.
const CHUNK: usize = 64;
/// With fewer values than this, waking another thread takes longer than it saves.
const PARALLEL: usize = 1 << 17;

/// A scorer of next tokens by one model, or by several that decide together (an ensemble).
#[derive(Debug)]
pub struct Incremental<'a, M: Generate = Model> {
    members: Vec<Member<'a, M>>,
    forbidden: Vec<u32>,
    /// Whether all members compute in host memory.
    on_host: bool,
    is_normalized: bool,
}

/// A model of the ensemble with its cache of the rows.
#[derive(Debug)]
struct Member<'a, M: Generate> {
    model: &'a M,
    cache: M::Cache,
    device: Device,
}

impl<'a, M: Generate> Member<'a, M> {
    /// Encodes the source.
    fn new(model: &'a M, src: Source) -> Self {
        let device = src.device();
        Self {
            model,
            cache: model.start(src),
            device,
        }
    }

    /// Adds one token to each row, and returns the scores of the next, `[rows, vocab_size]`.
    fn advance(&mut self, newest: &[i32]) -> Tensor<2> {
        let ids = TensorData::new(newest.to_vec(), [newest.len(), 1]);
        let ids = Tensor::<2, Int>::from_data(ids, &self.device);
        self.model.advance(ids, &mut self.cache)
    }
}

impl<'a, M: Generate> Incremental<'a, M> {
    /// Reads the source with each member; `forbidden` ids never come next.
    ///
    /// Each member has a source of its own, as source tokenizers may differ; all have the same
    /// target vocabulary. The probability of a token is the mean of the members' probabilities.
    ///
    /// # Shapes
    /// - source ids of each: `[rows, src_len]`, each row with EOS and padding behind
    pub fn new<S: Into<Source>>(
        members: impl IntoIterator<Item = (&'a M, S)>,
        forbidden: &[u32],
    ) -> Self {
        let members: Vec<_> = members
            .into_iter()
            .map(|(model, src)| Member::new(model, src.into()))
            .collect();
        let on_host = members
            .iter()
            .all(|member| computes_on_host(&member.device));
        Self {
            members,
            forbidden: forbidden.to_vec(),
            on_host,
            is_normalized: true,
        }
    }

    /// Leaves out the log-sum-exp over the vocabulary where the scores are in host memory. The
    /// log-probabilities of a row are then all off by the same number, which does not change the
    /// result of greedy search.
    #[must_use]
    pub fn without_normalization(self) -> Self {
        Self {
            is_normalized: false,
            ..self
        }
    }

    /// Adds one token to each row, and returns the scores of the next, whose softmax is its
    /// probability.
    ///
    /// # Shapes
    /// - output: `[rows, vocab_size]`
    fn logits(&mut self, newest: &[u32]) -> Tensor<2> {
        let newest: Vec<i32> = newest.iter().map(|&id| id as i32).collect();
        match &mut self.members[..] {
            [alone] => alone.advance(&newest),
            // The mean of probabilities, not of scores, which models scale differently.
            members => mean_of_probabilities(
                members
                    .iter_mut()
                    .map(|member| log_softmax(member.advance(&newest), 1)),
            ),
        }
    }
}

impl<M: Generate> Scorer for Incremental<'_, M> {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        requested: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        let logits = self.logits(newest);
        let [_, vocab_size] = logits.dims();
        let selection = Selection {
            count: count.min(vocab_size),
            requested,
            forbidden: &self.forbidden,
        };
        // To sort large parts of the vocabulary on a GPU takes longer than to copy the scores.
        if !self.on_host && selection.count * SORTED_SHARE <= vocab_size {
            return selection.on_device(logits);
        }
        let normalizer = if self.is_normalized {
            log_sum_exp
        } else {
            no_normalizer
        };
        selection.on_host(logits, normalizer)
    }

    fn select(&mut self, rows: &[usize]) {
        for member in &mut self.members {
            M::select(&mut member.cache, rows, &member.device);
        }
    }
}

/// The normalizer of scores that need not be log-probabilities.
fn no_normalizer(_: &[f32]) -> f32 {
    0.0
}

/// The tokens of each row that are to be selected: the `count` best, and those that are requested.
struct Selection<'a> {
    /// At most the size of the vocabulary.
    count: usize,
    /// For each row the tokens to add to the best; empty if there are none in any row.
    requested: &'a [Vec<u32>],
    /// Tokens that are never among the best.
    forbidden: &'a [u32],
}

impl Selection<'_> {
    /// Selects on the device, and reads the selected tokens in one transfer.
    ///
    /// # Shapes
    /// - `logits`: `[rows, vocab_size]`
    fn on_device(&self, logits: Tensor<2>) -> Vec<Vec<Candidate>> {
        let [num_rows, _] = logits.dims();
        let mut log_probs = log_softmax(logits, 1);
        for &id in self.forbidden {
            let column = id as usize..id as usize + 1;
            log_probs = log_probs.slice_fill([0..num_rows, column], f32::NEG_INFINITY);
        }
        let (values, ids) = match self.count {
            // A reduction, where `topk` would sort.
            1 => log_probs.clone().max_dim_with_indices(1),
            count => log_probs.clone().topk_with_indices(count, 1),
        };
        // One transfer for all tensors: each read waits for the device.
        let mut transaction = Transaction::default().register(values).register(ids);
        let most_requested = self.requested.iter().map(Vec::len).max().unwrap_or(0);
        if most_requested > 0 {
            let ids = padded_ids(self.requested, most_requested, &log_probs.device());
            transaction = transaction.register(log_probs.gather(1, ids));
        }
        let data = transaction.execute();
        let best: Vec<Candidate> = data[0]
            .iter::<f32>()
            .zip(data[1].iter::<u32>())
            .map(|(log_prob, id)| Candidate { id, log_prob })
            .collect();
        let mut rows: Vec<Vec<Candidate>> =
            best.chunks(self.count).map(<[Candidate]>::to_vec).collect();
        if let Some(requested) = data.get(2) {
            let log_probs: Vec<f32> = requested.iter::<f32>().collect();
            let log_probs = log_probs.chunks(most_requested);
            for ((row, ids), log_probs) in rows.iter_mut().zip(self.requested).zip(log_probs) {
                add_requested(row, ids.iter().copied().zip(log_probs.iter().copied()));
            }
        }
        rows
    }

    /// Selects in host memory: the operations of a CPU backend would sort whole rows. The
    /// `normalizer` of a row's scores is subtracted from them.
    ///
    /// # Shapes
    /// - `logits`: `[rows, vocab_size]`
    fn on_host(&self, logits: Tensor<2>, normalizer: fn(&[f32]) -> f32) -> Vec<Vec<Candidate>> {
        let [_, vocab_size] = logits.dims();
        let data = logits.into_data().convert::<f32>();
        let values = data
            .as_slice::<f32>()
            .expect("the data was just converted to `f32`");
        if values.len() < PARALLEL {
            return values
                .chunks(vocab_size)
                .enumerate()
                .map(|(index, row)| self.select_row(index, row, normalizer))
                .collect();
        }
        values
            .par_chunks(vocab_size)
            .enumerate()
            .map(|(index, row)| self.select_row(index, row, normalizer))
            .collect()
    }

    /// Selects the tokens of one row of scores.
    fn select_row(
        &self,
        index: usize,
        row: &[f32],
        normalizer: fn(&[f32]) -> f32,
    ) -> Vec<Candidate> {
        let normalizer = normalizer(row);
        let mut best = best_of_row(row, self.count, self.forbidden);
        for candidate in &mut best {
            candidate.log_prob -= normalizer;
        }
        if let Some(requested) = self.requested.get(index) {
            let log_probs = requested
                .iter()
                .map(|&id| (id, row[id as usize] - normalizer));
            add_requested(&mut best, log_probs);
        }
        best
    }
}

/// Rows of ids on a device, padded to `width` with token 0, whose values are not used.
///
/// # Shapes
/// - output: `[rows, width]`
fn padded_ids(rows: &[Vec<u32>], width: usize, device: &Device) -> Tensor<2, Int> {
    let mut ids = Vec::with_capacity(rows.len() * width);
    for row in rows {
        ids.extend(row.iter().map(|&id| id as i32));
        ids.resize(ids.len() + width - row.len(), 0);
    }
    Tensor::from_data(TensorData::new(ids, [rows.len(), width]), device)
}

/// Adds tokens with their log-probabilities, unless they are there already.
fn add_requested(row: &mut Vec<Candidate>, requested: impl Iterator<Item = (u32, f32)>) {
    for (id, log_prob) in requested {
        if row.iter().all(|candidate| candidate.id != id) {
            row.push(Candidate { id, log_prob });
        }
    }
}

/// The `count` tokens with the largest values that are not forbidden, best first; ties go to the
/// smaller id.
fn best_of_row(row: &[f32], count: usize, forbidden: &[u32]) -> Vec<Candidate> {
    if count * SORTED_SHARE > row.len() {
        return best_by_sorting(row, count, forbidden);
    }
    let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
    let mut worst = f32::NEG_INFINITY;
    for (values, first) in row.chunks(CHUNK).zip((0u32..).step_by(CHUNK)) {
        // Nearly every chunk has no value above the worst of the best so far, which a few vector
        // instructions decide; a loop that stops early would not be vectorized.
        let is_any_above = values
            .iter()
            .fold(0, |any, &value| any | u32::from(value > worst));
        if is_any_above == 0 && best.len() == count {
            continue;
        }
        for (id, &log_prob) in (first..).zip(values) {
            if (best.len() < count || log_prob > worst) && !forbidden.contains(&id) {
                let index = best.partition_point(|other| other.log_prob >= log_prob);
                best.insert(index, Candidate { id, log_prob });
                best.truncate(count);
                if best.len() == count {
                    worst = best[count - 1].log_prob;
                }
            }
        }
    }
    best
}

/// As [`best_of_row`], by sorting the whole row.
fn best_by_sorting(row: &[f32], count: usize, forbidden: &[u32]) -> Vec<Candidate> {
    let mut best: Vec<Candidate> = (0u32..)
        .zip(row)
        .map(|(id, &log_prob)| Candidate { id, log_prob })
        .filter(|candidate| !forbidden.contains(&candidate.id))
        .collect();
    // The sort is stable, so ties keep the order of ids.
    best.sort_by(|left, right| right.log_prob.total_cmp(&left.log_prob));
    best.truncate(count);
    best
}
