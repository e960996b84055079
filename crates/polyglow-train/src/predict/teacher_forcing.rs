//! What models find at the targets that are given to them.

use super::runner::Predicted;

/// How probable models find the targets of an example, each given what stands before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forced {
    /// Log-probability of each target, in nats; of a text the end mark's is the last.
    pub log_probs: Vec<f32>,
    /// How many of the targets the models rank first.
    pub num_correct: usize,
    /// What they rank first instead of each.
    pub first: Vec<u32>,
}

impl Forced {
    pub(crate) fn new(predicted: &[Predicted]) -> Self {
        let mut forced = Self::default();
        forced.extend(predicted);
        forced
    }

    pub(crate) fn extend(&mut self, predicted: &[Predicted]) {
        self.log_probs.extend(predicted.iter().map(|position| position.log_prob));
        self.first.extend(predicted.iter().map(|position| position.first));
        self.num_correct += predicted.iter().filter(|position| position.correct).count();
    }

    /// Log-probability of all targets together, in nats.
    pub fn log_prob(&self) -> f64 {
        self.log_probs.iter().copied().map(f64::from).sum()
    }
}
