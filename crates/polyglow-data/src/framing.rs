//! How a text becomes rows of batches: what a model reads, and what it predicts.

use std::num::NonZeroUsize;

use crate::batch::Batch;
use crate::example::Example;
use crate::skip_gram::SkipGrams;
use crate::special::SpecialIds;

/// What a row of a batch is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Framing {
    /// A whole example: the source, and the target, each token of which is predicted from those before it.
    #[default]
    Pairs,
    /// A window of a text of one side, read as a stream ([`crate::window`]).
    Windows {
        /// Positions of a window.
        context_len: NonZeroUsize,
    },
    /// A word of a text of one side, and candidates for one beside it ([`crate::skip_gram`]): many rows for an example.
    SkipGrams(SkipGrams),
}

impl Framing {
    /// Source and target positions of a row that is an example with so many ids; or of all its rows together, at most.
    pub(crate) fn positions(self, (src, tgt): (usize, usize)) -> (usize, usize) {
        match self {
            Self::Pairs | Self::Windows { .. } => (src + 1, tgt + 1),
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
            Self::Pairs | Self::Windows { .. } => [items, longest_src, longest_tgt],
            Self::SkipGrams(config) => [pairs, 1, config.candidates()],
        }
    }

    /// Puts whole examples into a batch, padded to multiples of `pad_multiple`; place and origin are left at zero.
    pub fn batch(self, examples: &[Example], src: SpecialIds, tgt: SpecialIds, pad_multiple: usize) -> Batch {
        match self {
            Self::Pairs | Self::Windows { .. } | Self::SkipGrams(_) => Batch::new(examples, src, tgt, pad_multiple),
        }
    }
}
