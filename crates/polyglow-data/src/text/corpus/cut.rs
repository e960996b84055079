//! Files that end too early, as downloads that were cut off, of which what stands before is read.

use std::sync::{Arc, OnceLock};

use super::Corpus;
use crate::error::DataError;

/// The position at which a part ends too early, once it is known. All readings of it end there.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<OnceLock<EarlyEnd>>);

#[derive(Debug)]
struct EarlyEnd {
    /// The number of pairs before.
    pairs: u64,
    /// The error that comes behind them.
    message: String,
}

impl Cut {
    /// Returns whether the part ends behind this number of pairs, as an earlier reading has found.
    pub(super) fn is_behind(&self, pairs: u64) -> bool {
        self.0.get().is_some_and(|end| end.pairs == pairs)
    }

    /// Returns whether the part ends where an error came behind this number of pairs, which is noted for
    /// later readings. A part without any pair is an error in any case.
    pub(super) fn accept(&self, error: &DataError, pairs: u64) -> bool {
        if pairs == 0 || !error.is_early_end() {
            return false;
        }
        let end = self.0.get_or_init(|| EarlyEnd {
            pairs,
            message: error.to_string(),
        });
        end.pairs == pairs
    }
}

impl Corpus {
    /// Returns the corpus with parts that may end too early, as downloads that were cut off do:
    /// [`Self::cuts`] says where. Otherwise that is an error, and so is it where nothing stands before.
    #[must_use]
    pub fn ending_at_cuts(mut self) -> Self {
        for part in &mut self.parts {
            part.cut = Some(Cut::default());
        }
        self
    }

    /// Says which parts end too early, and why, once their pairs were read: see [`Self::ending_at_cuts`].
    pub fn cuts(&self) -> Vec<String> {
        let cuts = self
            .parts
            .iter()
            .filter_map(|part| part.cut.as_ref()?.0.get());
        let shown = cuts.map(|end| format!("{}, behind {} pairs", end.message, end.pairs));
        shown.collect()
    }
}
