//! How a text becomes rows of batches: what a model reads, and what it predicts.

use std::num::NonZeroUsize;

use crate::batch::Batch;
use crate::example::Example;
use crate::special::SpecialIds;

/// What a row of a batch is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// A whole example: the source, and the target, each token of which is predicted from those before it.
    #[default]
    Pairs,
    /// A window of a text of one side, read as a stream ([`crate::window`]).
    Windows {
        /// Positions of a window.
        context_len: NonZeroUsize,
    },
}

impl Framing {
    /// Source and target positions of a row that is an example with so many ids.
    pub(crate) fn positions(self, (src, tgt): (usize, usize)) -> (usize, usize) {
        match self {
            Self::Pairs | Self::Windows { .. } => (src + 1, tgt + 1),
        }
    }

    /// Puts whole examples into a batch, padded to multiples of `pad_multiple`; place and origin are left at zero.
    pub fn batch(self, examples: &[Example], src: SpecialIds, tgt: SpecialIds, pad_multiple: usize) -> Batch {
        match self {
            Self::Pairs | Self::Windows { .. } => Batch::new(examples, src, tgt, pad_multiple),
        }
    }
}
