//! The Transformer as a [`NextToken`]: cached decoding, with one read from the device per position.

use burn::tensor::{Int, Tensor, TensorData, Transaction, activation::log_softmax};

use super::{Candidate, NextToken};
use crate::cache::DecoderCache;
use crate::{Transformer, mean_of_probabilities};

/// Of how many tokens of a vocabulary a row is read whole: sorting more than this share of it is no gain.
const WHOLE: usize = 4;

/// One model, or several that decide together, in the middle of translating some rows.
#[derive(Debug)]
pub struct Incremental<'a> {
    members: Vec<Member<'a>>,
    forbidden: Vec<u32>,
}

#[derive(Debug)]
struct Member<'a> {
    model: &'a Transformer,
    cache: DecoderCache,
}

impl<'a> Incremental<'a> {
    /// Reads the source; `forbidden` ids never come next.
    ///
    /// Each member reads its own source ids, as tokenizers may differ there; all write the same target vocabulary. The
    /// probability of a token is the mean of what the members give it.
    ///
    /// # Shapes
    /// - the source of each: `[rows, src_len]`, each row with its end mark and padding behind
    pub fn new(members: impl IntoIterator<Item = (&'a Transformer, Tensor<2, Int>)>, forbidden: &[u32]) -> Self {
        let read = |(model, src): (&'a Transformer, _)| Member { model, cache: model.start(&model.encode(src)) };
        Self { members: members.into_iter().map(read).collect(), forbidden: forbidden.to_vec() }
    }

    /// Log-probabilities of the next token.
    ///
    /// # Shapes
    /// - output: `[rows, vocab_size]`
    fn log_probs(&mut self, newest: &[u32]) -> Tensor<2> {
        let advance = |Member { model, cache }: &mut Member<'a>| {
            let newest: Vec<i32> = newest.iter().map(|&id| id as i32).collect();
            let shape = [newest.len(), 1];
            let ids = Tensor::<2, Int>::from_data(TensorData::new(newest, shape), &cache.src_pad_mask.device());
            log_softmax(model.advance(ids, cache), 1)
        };
        let mut log_probs = mean_of_probabilities(self.members.iter_mut().map(advance));
        let [rows, _] = log_probs.dims();
        for &id in &self.forbidden {
            log_probs = log_probs.slice_fill([0..rows, id as usize..id as usize + 1], f32::NEG_INFINITY);
        }
        log_probs
    }
}

impl NextToken for Incremental<'_> {
    fn advance(&mut self, newest: &[u32], count: usize, wanted: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
        let log_probs = self.log_probs(newest);
        let [_, vocab_size] = log_probs.dims();
        let count = count.min(vocab_size);
        let on_host = self.members.iter().all(|member| member.model.on_host());
        if count * WHOLE > vocab_size || on_host && (count > 1 || !wanted.is_empty()) {
            return best_on_host(log_probs, count, wanted);
        }
        best_on_device(log_probs, count, wanted)
    }

    fn select(&mut self, rows: &[usize]) {
        for member in &mut self.members {
            member.cache.select(rows);
        }
    }
}

/// The best of each row and what is wanted of it, found on the device and read together.
///
/// # Shapes
/// - `log_probs`: `[rows, vocab_size]`
fn best_on_device(log_probs: Tensor<2>, count: usize, wanted: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
    let (values, ids) = match count {
        1 => log_probs.clone().max_dim_with_indices(1),
        _ => log_probs.clone().topk_with_indices(count, 1),
    };
    let mut transaction = Transaction::default().register(values).register(ids);
    let most_wanted = wanted.iter().map(Vec::len).max().unwrap_or(0);
    if most_wanted > 0 {
        // Shorter rows ask for token 0 as well, whose answer is not used.
        let padded = wanted.iter().flat_map(|ids| {
            let ids = ids.iter().map(|&id| id as i32);
            ids.chain(std::iter::repeat(0)).take(most_wanted)
        });
        let ids = TensorData::new(padded.collect::<Vec<i32>>(), [wanted.len(), most_wanted]);
        let ids = Tensor::<2, Int>::from_data(ids, &log_probs.device());
        transaction = transaction.register(log_probs.gather(1, ids));
    }
    let read = transaction.execute();
    let candidates = read[0].iter::<f32>().zip(read[1].iter::<u32>());
    let candidates: Vec<Candidate> = candidates.map(|(log_prob, id)| Candidate { id, log_prob }).collect();
    let mut rows: Vec<Vec<Candidate>> = candidates.chunks(count).map(<[Candidate]>::to_vec).collect();
    if let Some(found) = read.get(2) {
        let found: Vec<f32> = found.iter::<f32>().collect();
        for ((row, ids), found) in rows.iter_mut().zip(wanted).zip(found.chunks(most_wanted)) {
            add_wanted(row, ids.iter().copied().zip(found.iter().copied()));
        }
    }
    rows
}

/// The best of each row and what is wanted of it, found where the numbers already lie: a CPU backend would sort whole
/// rows.
///
/// # Shapes
/// - `log_probs`: `[rows, vocab_size]`
fn best_on_host(log_probs: Tensor<2>, count: usize, wanted: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
    let [_, vocab_size] = log_probs.dims();
    let values: Vec<f32> = log_probs.into_data().iter::<f32>().collect();
    let mut rows: Vec<Vec<Candidate>> = values.chunks(vocab_size).map(|row| best_of_row(row, count)).collect();
    for ((row, ids), values) in rows.iter_mut().zip(wanted).zip(values.chunks(vocab_size)) {
        add_wanted(row, ids.iter().map(|&id| (id, values[id as usize])));
    }
    rows
}

fn add_wanted(row: &mut Vec<Candidate>, wanted: impl Iterator<Item = (u32, f32)>) {
    for (id, log_prob) in wanted {
        if row.iter().all(|candidate| candidate.id != id) {
            row.push(Candidate { id, log_prob });
        }
    }
}

/// The best tokens, best first; ties go to the smaller id.
fn best_of_row(row: &[f32], count: usize) -> Vec<Candidate> {
    let candidates = (0u32..).zip(row).map(|(id, &log_prob)| Candidate { id, log_prob });
    if count * WHOLE > row.len() {
        let mut best: Vec<Candidate> = candidates.collect();
        best.sort_by(|left, right| right.log_prob.total_cmp(&left.log_prob));
        best.truncate(count);
        return best;
    }
    // Nearly every token loses against the worst of the best so far, which costs one comparison.
    let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
    for candidate in candidates {
        if best.len() == count && candidate.log_prob <= best[count - 1].log_prob {
            continue;
        }
        let place = best.partition_point(|other| other.log_prob >= candidate.log_prob);
        best.insert(place, candidate);
        best.truncate(count);
    }
    best
}
