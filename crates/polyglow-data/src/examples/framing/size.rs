//! How many positions the rows of each framing take up, which batches are planned by.

use super::Framing;

impl Framing {
    /// Source and target positions of a row that is an example with so many ids; or of all its rows together, at most.
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

    /// Rows, and source and target positions of the longest, of the examples that take up so many [`Self::positions`].
    pub(crate) fn shape(self, positions: impl Iterator<Item = (usize, usize)>) -> [usize; 3] {
        let [items, longest_src, longest_tgt, pairs] = positions
            .fold([0; 4], |[items, src, tgt, sum], next| [items + 1, src.max(next.0), tgt.max(next.1), sum + next.0]);
        match self {
            Self::SkipGrams(config) => [pairs, 1, config.candidates()],
            _ => [items, longest_src, longest_tgt],
        }
    }
}
