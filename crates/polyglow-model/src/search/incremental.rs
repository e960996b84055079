//! A model as a [`NextToken`]: cached decoding, with one read from the device per position.

use burn::tensor::{Device, Int, Tensor, TensorData, Transaction, activation::log_softmax};
use polyglow_kernels::log_sum_exp;
use rayon::prelude::*;

use super::{Candidate, NextToken};
use crate::{Generate, Model, computes_on_host, mean_of_probabilities};

/// If more than 1/`WHOLE` of the vocabulary is wanted, the whole row is sorted; selecting is not
/// faster then.
const WHOLE: usize = 4;
/// Values of a row that are compared together.
const CHUNK: usize = 64;
/// Below so many values, waking another thread takes longer than it saves.
const PARALLEL: usize = 1 << 17;

/// One model, or several that decide together, in the middle of writing some rows.
#[derive(Debug)]
pub struct Incremental<'a, M: Generate = Model> {
    members: Vec<Member<'a, M>>,
    forbidden: Vec<u32>,
    /// Whether all members compute in host memory.
    on_host: bool,
    normalized: bool,
}

#[derive(Debug)]
struct Member<'a, M: Generate> {
    model: &'a M,
    cache: M::Cache,
    device: Device,
}

impl<'a, M: Generate> Incremental<'a, M> {
    /// Reads the source; `forbidden` ids never come next.
    ///
    /// Each member reads its own source ids, as tokenizers may differ there; all write the same
    /// target vocabulary. The probability of a token is the mean of what the members give it.
    ///
    /// # Shapes
    /// - the source of each: `[rows, src_len]`, each row with its end mark and padding behind
    pub fn new(
        members: impl IntoIterator<Item = (&'a M, Tensor<2, Int>)>,
        forbidden: &[u32],
    ) -> Self {
        let read = |(model, src): (&'a M, Tensor<2, Int>)| {
            let device = src.device();
            Member {
                model,
                cache: model.start(src),
                device,
            }
        };
        let members: Vec<_> = members.into_iter().map(read).collect();
        let on_host = members
            .iter()
            .all(|member| computes_on_host(&member.device));
        Self {
            members,
            forbidden: forbidden.to_vec(),
            on_host,
            normalized: true,
        }
    }

    /// In host memory leaves the sum over the vocabulary out: the log-probabilities of a row are
    /// then all off by one number, on which greedy search does not depend.
    #[must_use]
    pub fn without_normalization(self) -> Self {
        Self {
            normalized: false,
            ..self
        }
    }

    /// Scores of the next token, whose softmax is its probability.
    ///
    /// # Shapes
    /// - output: `[rows, vocab_size]`
    fn logits(&mut self, newest: &[u32]) -> Tensor<2> {
        let newest: Vec<i32> = newest.iter().map(|&id| id as i32).collect();
        let advance = |Member {
                           model,
                           cache,
                           device,
                       }: &mut Member<'a, M>| {
            let ids = TensorData::new(newest.clone(), [newest.len(), 1]);
            model.advance(Tensor::<2, Int>::from_data(ids, &*device), cache)
        };
        match &mut self.members[..] {
            [alone] => advance(alone),
            members => mean_of_probabilities(
                members
                    .iter_mut()
                    .map(|member| log_softmax(advance(member), 1)),
            ),
        }
    }
}

impl<M: Generate> NextToken for Incremental<'_, M> {
    fn advance(
        &mut self,
        newest: &[u32],
        count: usize,
        wanted: &[Vec<u32>],
    ) -> Vec<Vec<Candidate>> {
        let logits = self.logits(newest);
        let [_, vocab_size] = logits.dims();
        let count = count.min(vocab_size);
        if self.on_host || count * WHOLE > vocab_size {
            best_on_host(
                logits,
                count,
                wanted,
                &self.forbidden,
                if self.normalized {
                    log_sum_exp
                } else {
                    |_| 0.0
                },
            )
        } else {
            best_on_device(logits, count, wanted, &self.forbidden)
        }
    }

    fn select(&mut self, rows: &[usize]) {
        for member in &mut self.members {
            M::select(&mut member.cache, rows, &member.device);
        }
    }
}

/// The best tokens of each row and those of `wanted`, selected on the device and read in one
/// transfer.
///
/// # Shapes
/// - `logits`: `[rows, vocab_size]`
fn best_on_device(
    logits: Tensor<2>,
    count: usize,
    wanted: &[Vec<u32>],
    forbidden: &[u32],
) -> Vec<Vec<Candidate>> {
    let [rows, _] = logits.dims();
    let log_probs = forbidden
        .iter()
        .fold(log_softmax(logits, 1), |log_probs, &id| {
            log_probs.slice_fill([0..rows, id as usize..id as usize + 1], f32::NEG_INFINITY)
        });
    let (values, ids) = match count {
        1 => log_probs.clone().max_dim_with_indices(1),
        _ => log_probs.clone().topk_with_indices(count, 1),
    };
    let mut transaction = Transaction::default().register(values).register(ids);
    let most_wanted = wanted.iter().map(Vec::len).max().unwrap_or(0);
    if most_wanted > 0 {
        // Shorter rows are padded with token 0; its value is not used.
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
    let candidates: Vec<Candidate> = candidates
        .map(|(log_prob, id)| Candidate { id, log_prob })
        .collect();
    let mut rows: Vec<Vec<Candidate>> = candidates
        .chunks(count)
        .map(<[Candidate]>::to_vec)
        .collect();
    if let Some(found) = read.get(2) {
        let found: Vec<f32> = found.iter::<f32>().collect();
        for ((row, ids), found) in rows.iter_mut().zip(wanted).zip(found.chunks(most_wanted)) {
            add_wanted(row, ids.iter().copied().zip(found.iter().copied()));
        }
    }
    rows
}

/// The best tokens of each row and those of `wanted`, selected in host memory: a CPU backend would
/// sort whole rows. `normalizer` is what is subtracted from the scores of a row.
///
/// # Shapes
/// - `logits`: `[rows, vocab_size]`
fn best_on_host(
    logits: Tensor<2>,
    count: usize,
    wanted: &[Vec<u32>],
    forbidden: &[u32],
    normalizer: fn(&[f32]) -> f32,
) -> Vec<Vec<Candidate>> {
    let [_, vocab_size] = logits.dims();
    let data = logits.into_data().convert::<f32>();
    let values = data
        .as_slice::<f32>()
        .expect("the numbers were just made `f32`");
    let candidates = |(index, row): (usize, &[f32])| {
        let normalizer = normalizer(row);
        let mut best = best_of_row(row, count, forbidden);
        for candidate in &mut best {
            candidate.log_prob -= normalizer;
        }
        let wanted = wanted.get(index).map_or(&[][..], Vec::as_slice);
        add_wanted(
            &mut best,
            wanted.iter().map(|&id| (id, row[id as usize] - normalizer)),
        );
        best
    };
    if values.len() < PARALLEL {
        return values
            .chunks(vocab_size)
            .enumerate()
            .map(candidates)
            .collect();
    }
    values
        .par_chunks(vocab_size)
        .enumerate()
        .map(candidates)
        .collect()
}

fn add_wanted(row: &mut Vec<Candidate>, wanted: impl Iterator<Item = (u32, f32)>) {
    for (id, log_prob) in wanted {
        if row.iter().all(|candidate| candidate.id != id) {
            row.push(Candidate { id, log_prob });
        }
    }
}

/// The tokens with the largest values that are not forbidden, best first; ties go to the smaller
/// id.
fn best_of_row(row: &[f32], count: usize, forbidden: &[u32]) -> Vec<Candidate> {
    if count * WHOLE > row.len() {
        let candidates = (0u32..)
            .zip(row)
            .map(|(id, &log_prob)| Candidate { id, log_prob });
        let mut best: Vec<Candidate> = candidates
            .filter(|candidate| !forbidden.contains(&candidate.id))
            .collect();
        best.sort_by(|left, right| right.log_prob.total_cmp(&left.log_prob));
        best.truncate(count);
        return best;
    }
    let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
    let mut worst = f32::NEG_INFINITY;
    for (values, first) in row.chunks(CHUNK).zip((0u32..).step_by(CHUNK)) {
        // Nearly every chunk has no value above the worst of the best so far; a few vector
        // instructions find that out.
        let better = values
            .iter()
            .fold(0, |found, &value| found | u32::from(value > worst));
        if better == 0 && best.len() == count {
            continue;
        }
        for (id, &log_prob) in (first..).zip(values) {
            if (best.len() < count || log_prob > worst) && !forbidden.contains(&id) {
                let place = best.partition_point(|other| other.log_prob >= log_prob);
                best.insert(place, Candidate { id, log_prob });
                best.truncate(count);
                if best.len() == count {
                    worst = best[count - 1].log_prob;
                }
            }
        }
    }
    best
}
