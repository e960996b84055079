//! The number of iterations of each model in a chain.

/// The model of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// IBM model 1: words alone.
    Words,
    /// The HMM: words and jumps.
    Jumps,
    /// Words, jumps and fertilities.
    Fertility,
}

/// The iterations of a chain: `n` of the whole model, a quarter of that of each simpler one before
/// them. The second half of the `n` adds to the marginals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Schedule {
    whole: usize,
    simpler: usize,
}

impl Schedule {
    /// Makes the schedule for a text of that many pairs: `n = 5000 / sqrt(pairs)`, at least 2, so
    /// that small texts, whose words are rare, are drawn more often.
    pub(super) fn new(pairs: usize) -> Self {
        let whole = 5000.0 / (pairs.max(1) as f64).sqrt();
        let whole = (whole as usize).max(2);
        Self {
            whole,
            simpler: (whole / 4).max(1),
        }
    }

    /// The number of all iterations.
    pub(super) fn iterations(self) -> usize {
        self.whole + 2 * self.simpler
    }

    /// The model of an iteration, which is counted from 0.
    pub(super) fn stage(self, iteration: usize) -> Stage {
        if iteration < self.simpler {
            Stage::Words
        } else if iteration < 2 * self.simpler {
            Stage::Jumps
        } else {
            Stage::Fertility
        }
    }

    /// The number of iterations that add to the marginals.
    pub(super) fn samples(self) -> usize {
        self.whole / 2
    }

    /// The whole number that stands for probability 1 in what an iteration adds to the marginals,
    /// 0 if it adds nothing. The sums of all iterations fit into 16 bits.
    pub(super) fn unit(self, iteration: usize) -> u16 {
        if iteration + self.samples() < self.iterations() {
            return 0;
        }
        (usize::from(u16::MAX) / self.samples()) as u16
    }
}
