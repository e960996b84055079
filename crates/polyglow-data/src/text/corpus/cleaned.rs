//! Training text without what is no translation (`data.clean`).

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Corpus, SCORES};
use crate::clean::cleaning::Cleaning;
use crate::clean::filtered::Filtered;
use crate::clean::report::CleanReport;
use crate::config::CleanConfig;
use crate::error::DataError;
use crate::pair::Pair;
use crate::pair_scores::read_pair_scores;

/// The text that is cleaned when it is read for the first time: a run that is resumed has its ids on
/// disk, and reads no text.
pub(super) struct CleanText {
    /// The whole text.
    corpus: Corpus,
    /// The sets whose sentences must not be trained on.
    held_out: Vec<Corpus>,
    settings: CleanConfig,
    cleaning: Mutex<Option<Arc<Cleaning>>>,
}

impl Debug for CleanText {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("CleanText");
        text.field("corpus", &self.corpus).finish_non_exhaustive()
    }
}

impl CleanText {
    /// Makes the text of a corpus, which is not read yet.
    pub(super) fn new(corpus: Corpus, held_out: Vec<Corpus>, settings: CleanConfig) -> Self {
        Self {
            corpus,
            held_out,
            settings,
            cleaning: Mutex::new(None),
        }
    }

    /// The sets whose sentences must not be trained on.
    pub(super) fn held_out(&self) -> &[Corpus] {
        &self.held_out
    }

    /// How the text is cleaned.
    pub(super) fn settings(&self) -> &CleanConfig {
        &self.settings
    }

    /// Says what becomes of each pair.
    ///
    /// # Errors
    /// The text or its scores cannot be read, these do not fit it, or nothing of it stays.
    fn cleaning(&self) -> Result<Arc<Cleaning>, DataError> {
        let mut cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cleaning) = &*cleaning {
            return Ok(Arc::clone(cleaning));
        }
        let CleanConfig {
            without,
            scores,
            keep,
        } = &self.settings;
        let mut made = Cleaning::of(&self.corpus, &self.held_out, without, &mut |_, _| ())?;
        if let (Some(path), Some(keep)) = (scores, keep) {
            let scores = read_pair_scores(SCORES, path, made.num_pairs())?;
            made.keep_best(&scores, *keep, without);
        }
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
        cleaning.without(self.settings.without.iter().copied())
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
