//! What models find at the targets that are given to them.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, Transaction};
use polyglow_model::mean_of_probabilities;
use serde::{Deserialize, Serialize};

use crate::device::upload;
use crate::runner::{Member, Runner};

/// How probable models find the targets of an example, each given what stands before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forced {
    /// Log-probability of each target, in nats; of a text that was not cut the end mark's is the
    /// last.
    pub log_probs: Vec<f32>,
    /// How many of the targets the models rank first.
    pub num_correct: usize,
    /// What they rank first instead of each.
    pub first: Vec<u32>,
    /// Whether a side is longer than the models: only its beginning was read. A target that was cut
    /// has no end mark.
    pub truncated: bool,
}

impl Forced {
    /// Makes it of what the models found at the targets of one example.
    pub fn new(predicted: &[Predicted]) -> Self {
        let mut forced = Self::default();
        forced.extend(predicted);
        forced
    }

    /// Adds what the models found at further targets of the same example.
    pub fn extend(&mut self, predicted: &[Predicted]) {
        self.log_probs
            .extend(predicted.iter().map(|position| position.log_prob));
        self.first
            .extend(predicted.iter().map(|position| position.first));
        self.num_correct += predicted.iter().filter(|position| position.correct).count();
    }

    /// Log-probability of all targets together, in nats.
    pub fn log_prob(&self) -> f64 {
        self.log_probs.iter().copied().map(f64::from).sum()
    }
}

/// Something that a model finds at a position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Log-probability of the token that stands there, in nats.
    pub log_prob: f32,
    /// The token that the models rank first.
    pub first: u32,
    /// Whether the token that stands there is ranked first.
    pub correct: bool,
}

impl<M> Runner<M> {
    /// Log-probabilities of the ensemble. `logits` gives the scores of a member, by its number.
    ///
    /// # Shapes
    /// - output: `[rows, classes]`
    pub fn log_probs(&self, mut logits: impl FnMut(usize, &Member<M>) -> Tensor<2>) -> Tensor<2> {
        mean_of_probabilities(
            self.members
                .iter()
                .enumerate()
                .map(|(index, member)| log_softmax(logits(index, member), 1)),
        )
    }
}

/// What is found at every position that has a target, row by row. Targets that are `ignored`, such
/// as padding, are none; classes that are `never` answers are not ranked.
///
/// # Shapes
/// - `log_probs`: `[rows * len, classes]`; `targets`: `[rows, len]` row by row
pub fn at_targets(
    log_probs: &Tensor<2>,
    targets: Vec<i32>,
    len: usize,
    ignored: Option<u32>,
    never: &[u32],
) -> Vec<Vec<Predicted>> {
    let wanted: Vec<i64> = targets.iter().map(|&target| i64::from(target)).collect();
    let device = log_probs.device();
    let targets: Tensor<2, Int> = upload(targets, 1, &device);
    let rows = log_probs.dims()[0];
    let ranked = never.iter().fold(log_probs.clone(), |ranked, &id| {
        ranked.slice_fill([0..rows, id as usize..id as usize + 1], f32::NEG_INFINITY)
    });
    let ranked_first = ranked.argmax(1);
    let read = Transaction::default()
        .register(log_probs.clone().gather(1, targets))
        .register(ranked_first)
        .execute();
    let found = read[0].iter::<f32>().zip(read[1].iter::<i64>()).zip(wanted);
    let ignored = ignored.map(i64::from);
    let predicted: Vec<Option<Predicted>> = found
        .map(|((log_prob, first), target)| {
            (Some(target) != ignored).then_some(Predicted {
                log_prob,
                first: first as u32,
                correct: first == target,
            })
        })
        .collect();
    predicted
        .chunks(len.max(1))
        .map(|row| row.iter().copied().flatten().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn classes_that_are_no_answers_are_not_ranked_and_keep_their_probability() {
        let log_probs =
            Tensor::<2>::from_data([[-0.1, -3.0, -2.5], [-0.2, -2.0, -4.0]], &Device::flex());
        let found = |never: &[u32]| at_targets(&log_probs, vec![2, 0], 1, None, never).concat();
        let ranked = |never: &[u32]| {
            found(never)
                .iter()
                .map(|found| (found.first, found.correct))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranked(&[]), [(0, false), (0, true)]);
        assert_eq!(ranked(&[0]), [(2, true), (1, false)]);
        assert_eq!(
            found(&[0])
                .iter()
                .map(|found| found.log_prob)
                .collect::<Vec<_>>(),
            [-2.5, -0.2]
        );
    }
}
