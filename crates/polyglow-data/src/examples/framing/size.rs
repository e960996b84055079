//! How many positions a row takes, from which batches are planned.

use super::Framing;

impl Framing {
    /// Source and target positions of an example with so many source and target ids. If an example becomes several
    /// rows, the maximum of all of them together.
    pub(crate) fn positions(self, (src, tgt): (usize, usize)) -> (usize, usize) {
        match self {
            Self::Pairs | Self::Windows { .. } => (src + 1, tgt + 1),
            Self::Labels => (src + 1, 1),
            Self::Images { .. } => (src, 1),
            Self::Masked => (tgt + 1, tgt + 1),
            Self::SkipGrams(config) => {
                let pairs = config.most_pairs(tgt).max(1);
                (pairs, pairs * config.candidates())
            }
        }
    }

    /// Maximum number of rows, source length and target length of a batch whose examples have these
    /// [`Self::positions`].
    pub(crate) fn shape(self, positions: impl Iterator<Item = (usize, usize)>) -> [usize; 3] {
        let [items, longest_src, longest_tgt, pairs] = positions
            .fold([0; 4], |[items, src, tgt, sum], next| [items + 1, src.max(next.0), tgt.max(next.1), sum + next.0]);
        match self {
            Self::SkipGrams(config) => [pairs, 1, config.candidates()],
            _ => [items, longest_src, longest_tgt],
        }
    }
}
