//! Training text without what is no translation (`data.clean`).

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use super::Corpus;
use crate::clean::cleaning::Cleaning;
use crate::clean::filtered::Filtered;
use crate::clean::report::CleanReport;
use crate::config::FilterGroup;
use crate::error::DataError;
use crate::pair::Pair;

/// The text that is cleaned when it is read for the first time: a run that is resumed has its ids on
/// disk, and reads no text.
pub(super) struct CleanText {
    /// The whole text.
    corpus: Corpus,
    /// The sets whose sentences must not be trained on.
    held_out: Vec<Corpus>,
    /// Groups of filters that are left out.
    without: BTreeSet<FilterGroup>,
    cleaning: Mutex<Option<Arc<Cleaning>>>,
}

impl Debug for CleanText {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("CleanText");
        text.field("corpus", &self.corpus).finish_non_exhaustive()
    }
}

impl CleanText {
    /// Makes the text of a corpus, which is not read yet; it is cleaned without the filters of some
    /// groups.
    pub(super) fn new(
        corpus: Corpus,
        held_out: Vec<Corpus>,
        without: BTreeSet<FilterGroup>,
    ) -> Self {
        Self {
            corpus,
            held_out,
            without,
            cleaning: Mutex::new(None),
        }
    }

    /// The sets whose sentences must not be trained on.
    pub(super) fn held_out(&self) -> &[Corpus] {
        &self.held_out
    }

    /// The groups of filters that are left out.
    pub(super) fn without(&self) -> &BTreeSet<FilterGroup> {
        &self.without
    }

    /// Says what becomes of each pair.
    ///
    /// # Errors
    /// The text cannot be read, or nothing of it stays.
    fn cleaning(&self) -> Result<Arc<Cleaning>, DataError> {
        let mut cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cleaning) = &*cleaning {
            return Ok(Arc::clone(cleaning));
        }
        let made = Cleaning::of(&self.corpus, &self.held_out, &self.without, &mut |_, _| ())?;
        self.filtered(&made).report().check_not_empty()?;
        Ok(Arc::clone(
            cleaning.insert(Arc::new(made.without_evidence())),
        ))
    }

    /// Returns how many pairs stay, if the text has been read.
    pub(super) fn report(&self) -> Option<CleanReport> {
        let cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        let cleaning = cleaning.as_ref()?;
        Some(self.filtered(cleaning).report())
    }

    /// Returns what becomes of the pairs.
    fn filtered<'c>(&self, cleaning: &'c Cleaning) -> Filtered<'c> {
        cleaning.without(self.without.iter().copied())
    }
}

/// A part of a text that is cleaned.
#[derive(Debug, Clone)]
pub(super) struct CleanPart {
    pub(super) text: Arc<CleanText>,
    /// The number of the part.
    pub(super) part: usize,
}

impl CleanPart {
    /// Begins to clean the pairs of the part.
    ///
    /// # Errors
    /// The text cannot be read.
    pub(super) fn begin(&self) -> Result<Cleaner, DataError> {
        let cleaning = self.text.cleaning()?;
        Ok(Cleaner {
            text: Arc::clone(&self.text),
            index: cleaning.start(self.part),
            cleaning,
        })
    }
}

/// Cleans the pairs of a part one after the other.
pub(super) struct Cleaner {
    text: Arc<CleanText>,
    cleaning: Arc<Cleaning>,
    /// The number of the next pair in the corpus.
    index: u64,
}

impl Cleaner {
    /// Returns the next pair as it stays; `None` if it is left out.
    pub(super) fn clean(&mut self, pair: &Pair) -> Option<Pair> {
        let filtered = self.text.filtered(&self.cleaning);
        let cleaned = filtered.cleaned(self.index, pair);
        self.index += 1;
        cleaned.removed.is_none().then_some(cleaned.pair)
    }
}
