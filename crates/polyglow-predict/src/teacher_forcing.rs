//! Teacher forcing: the predictions of models at given targets.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, Transaction};
use polyglow_model::mean_of_probabilities;
use serde::{Deserialize, Serialize};

use crate::device::upload;
use crate::runner::{Member, Runner};

/// The predictions of models at the targets of an example, each given the targets before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forced {
    /// The log-probability of each target, in nats. Unless the text was cut, the last is that of EOS.
    pub log_probs: Vec<f32>,
    /// The number of targets that the models rank first.
    pub num_correct: usize,
    /// The id that the models rank first at each target, right or wrong.
    pub first: Vec<u32>,
    /// Whether a side is longer than the models, so that only its beginning was read. A target that
    /// was cut has no EOS.
    pub truncated: bool,
}

impl Forced {
    /// Collects the predictions at the targets of one example.
    pub fn new(predicted: &[Predicted]) -> Self {
        let mut forced = Self::default();
        forced.extend(predicted);
        forced
    }

    /// Adds the predictions at further targets of the same example.
    pub fn extend(&mut self, predicted: &[Predicted]) {
        for position in predicted {
            self.log_probs.push(position.log_prob);
            self.first.push(position.first);
            self.num_correct += usize::from(position.correct);
        }
    }

    /// Returns the log-probability of all targets together, in nats.
    pub fn log_prob(&self) -> f64 {
        self.log_probs.iter().copied().map(f64::from).sum()
    }
}

/// The prediction of models at one position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The log-probability of the target, in nats.
    pub log_prob: f32,
    /// The id that the models rank first.
    pub first: u32,
    /// Whether the target is ranked first.
    pub correct: bool,
}

impl<M> Runner<M> {
    /// Returns the log-probabilities of the ensemble. `logits` is called with each member and its index,
    /// and returns the logits of that member.
    ///
    /// # Shapes
    /// - output: `[rows, classes]`
    pub fn log_probs(&self, mut logits: impl FnMut(usize, &Member<M>) -> Tensor<2>) -> Tensor<2> {
        let members = self.members.iter().enumerate();
        mean_of_probabilities(members.map(|(index, member)| log_softmax(logits(index, member), 1)))
    }
}

/// Returns the predictions at every position that has a target, row by row. Targets that are
/// `ignored`, such as padding, are left out; classes that are `never` answers are not ranked, and keep
/// their probability.
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
    let device = log_probs.device();
    let target_ids: Tensor<2, Int> = upload(targets.clone(), 1, &device);
    let rows = log_probs.dims()[0];
    let ranked = never.iter().fold(log_probs.clone(), |ranked, &id| {
        ranked.slice_fill([0..rows, id as usize..id as usize + 1], f32::NEG_INFINITY)
    });
    let ranked_first = ranked.argmax(1);
    // Both results in one transaction, since each read waits for the device.
    let results = Transaction::default()
        .register(log_probs.clone().gather(1, target_ids))
        .register(ranked_first)
        .execute();
    let log_probs: Vec<f32> = results[0].iter().collect();
    let ranked_first: Vec<i64> = results[1].iter().collect();

    let len = len.max(1);
    let mut rows = vec![Vec::new(); targets.len().div_ceil(len)];
    for (index, target) in targets.into_iter().map(i64::from).enumerate() {
        if Some(target) == ignored.map(i64::from) {
            continue;
        }
        rows[index / len].push(Predicted {
            log_prob: log_probs[index],
            first: ranked_first[index] as u32,
            correct: ranked_first[index] == target,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn classes_that_are_no_answers_are_not_ranked_and_keep_their_probability() {
        let log_probs =
            Tensor::<2>::from_data([[-0.1, -3.0, -2.5], [-0.2, -2.0, -4.0]], &Device::flex());
        let predicted = |never: &[u32]| at_targets(&log_probs, vec![2, 0], 1, None, never).concat();
        let ranked = |never: &[u32]| {
            predicted(never)
                .iter()
                .map(|predicted| (predicted.first, predicted.correct))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranked(&[]), [(0, false), (0, true)]);
        assert_eq!(ranked(&[0]), [(2, true), (1, false)]);
        assert_eq!(
            predicted(&[0])
                .iter()
                .map(|predicted| predicted.log_prob)
                .collect::<Vec<_>>(),
            [-2.5, -0.2]
        );
    }
}
