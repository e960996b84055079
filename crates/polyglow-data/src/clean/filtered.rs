//! A cleaning without some groups of filters.

use std::collections::BTreeSet;

use crate::clean::cleaner::{DUPLICATE, TEMPLATE};
use crate::clean::cleaning::{Cleaning, Fate};
use crate::clean::held_out::{NEAR_TEST, TEST};
use crate::clean::links::PairLinks;
use crate::clean::own_language::Guess;
use crate::clean::reasons::{LANGUAGE, ReasonSet};
use crate::clean::repair::Repairs;
use crate::clean::report::CleanReport;
use crate::clean::rules::{NUMBERS, numbers_without_partner};
use crate::config::FilterGroup;
use crate::example::Reason;
use crate::pair::Pair;

/// A pair that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Cleaned {
    /// The pair as it stays.
    pub pair: Pair,
    /// The repairs that were made.
    pub repairs: Repairs,
    /// Whether its sides stood on the wrong sides.
    pub is_swapped: bool,
    /// Why it is to be removed; `None` if it stays.
    pub removed: Option<Reason>,
}

impl Cleaned {
    /// Returns the names of all that was repaired; `swapped` if the sides were exchanged.
    pub fn repair_names(&self) -> impl Iterator<Item = &'static str> {
        let swapped = self.is_swapped.then_some("swapped");
        self.repairs.names().chain(swapped)
    }
}

/// The decision on a pair, with the evidence for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The pair.
    pub cleaned: Cleaned,
    /// All reasons to remove it, of which [`Cleaned::removed`] is the first.
    pub reasons: Vec<Reason>,
    /// The number of the first pair that says the same, or the same but for digits, if this one is
    /// removed for that.
    pub first: Option<u64>,
    /// The held-out pair that has a sentence of this one, or nearly, if this one is removed for that.
    pub held_out: Option<Pair>,
    /// The numbers of the source and of the target, once repaired, that have no partner on the
    /// other side; empty unless the pair is removed for them.
    pub numbers_without_partner: [Vec<String>; 2],
    /// The languages of the source and the target, once repaired; `None` if nothing was learned of
    /// languages, or a side has no letters.
    pub guesses: [Option<Guess>; 2],
    /// The score of the pair minus the limit, for each kind of noise: below 0 it is removed. Empty
    /// if no tables of words were learned, or a side has no words.
    pub margins: Vec<(&'static str, f64)>,
}

/// The decisions on the pairs of a corpus, by all filters or without those of some groups.
pub struct Filtered<'a> {
    cleaning: &'a Cleaning,
    left_out: BTreeSet<FilterGroup>,
    /// The reasons of these groups.
    ignored: ReasonSet,
}

impl<'a> Filtered<'a> {
    pub(super) fn new(cleaning: &'a Cleaning, left_out: BTreeSet<FilterGroup>) -> Self {
        Self {
            cleaning,
            ignored: ReasonSet::from_groups(&left_out),
            left_out,
        }
    }

    /// Returns the cleaning itself.
    pub fn cleaning(&self) -> &'a Cleaning {
        self.cleaning
    }

    /// Returns the decision on a pair without the filters that are left out.
    fn fate(&self, index: u64) -> Fate {
        let fate = self.cleaning.fates[index as usize];
        Fate {
            is_swapped: fate.is_swapped && !self.left_out.contains(&FilterGroup::Language),
            reasons: fate.reasons.without(self.ignored),
            ..fate
        }
    }

    /// Returns a pair of the corpus, by its number from 0, repaired, with the decision on it.
    pub fn cleaned(&self, index: u64, pair: &Pair) -> Cleaned {
        let (mut cleaned, repairs) = if self.left_out.contains(&FilterGroup::Repairs) {
            self.cleaning.cleaner.readable(pair)
        } else {
            self.cleaning.cleaner.repair(pair)
        };
        let fate = self.fate(index);
        fate.apply(&mut cleaned);
        Cleaned {
            pair: cleaned,
            repairs,
            is_swapped: fate.is_swapped,
            removed: fate.reasons.first(),
        }
    }

    /// Returns whether a pair of the corpus, by its number from 0, stays as it is, but for white space;
    /// not for a pair that was not there when the corpus was cleaned.
    pub fn leaves_unchanged(&self, index: u64, pair: &Pair) -> bool {
        if index >= self.cleaning.fates.len() as u64 {
            return false;
        }
        let cleaned = self.cleaned(index, pair);
        cleaned.removed.is_none() && !cleaned.is_swapped && !cleaned.repairs.any()
    }

    /// Returns the decision on a pair of the corpus, by its number from 0, with the evidence for
    /// it.
    pub fn explain(&self, index: u64, pair: &Pair) -> Explanation {
        let cleaned = self.cleaned(index, pair);
        let Cleaning { cleaner: all, .. } = self.cleaning;
        // As the filters saw it, whatever is left out.
        let (mut seen, _) = all.repair(pair);
        self.cleaning.apply(index, &mut seen);
        let (mut first, mut held_out) = (None, None);
        match cleaned.removed {
            Some(DUPLICATE) => {
                let mut duplicates = all.duplicates().iter();
                let same = duplicates.find(|duplicate| duplicate.index == index);
                first = same.map(|duplicate| duplicate.first);
            }
            Some(TEMPLATE) => first = all.first_of_template(&seen),
            Some(TEST | NEAR_TEST) => held_out = all.find_held_out(&seen).cloned(),
            _ => {}
        }
        let guesses = self
            .cleaning
            .own_languages
            .as_ref()
            .map_or([None, None], |languages| languages.guesses(&cleaned.pair));
        let margins = self
            .cleaning
            .lexical
            .as_ref()
            .map_or_else(Vec::new, |lexical| lexical.margins(index, &cleaned.pair));
        let reasons: Vec<Reason> = self.fate(index).reasons.iter().collect();
        let numbers_without_partner = if reasons.contains(&NUMBERS) {
            numbers_without_partner(&seen.src, &seen.tgt)
        } else {
            Default::default()
        };
        Explanation {
            cleaned,
            reasons,
            first,
            held_out,
            numbers_without_partner,
            guesses,
            margins,
        }
    }

    /// Aligns pairs of the corpus, as they are in it or repaired, with a sample of the pairs that
    /// stay, and returns the links of each, in order. Without a sample there are neither links nor
    /// unlinked words: there are too few pairs, or it was not looked at what they mean.
    ///
    /// The links of a pair depend a little on the others that are requested. The time hardly does, up
    /// to a hundred pairs: a second or two, and up to ten in texts of long sentences.
    pub fn link(&self, pairs: &[&Pair]) -> Vec<PairLinks> {
        match &self.cleaning.link_sample {
            Some(sample) => sample.link(pairs),
            None => vec![PairLinks::default(); pairs.len()],
        }
    }

    /// Returns the counts of pairs that stay and that are removed. Repairs are not counted, which
    /// are made when a pair is read: see [`CleanReport::count_repairs`].
    pub fn report(&self) -> CleanReport {
        let has_scores = !self.left_out.contains(&FilterGroup::Scores);
        let mut report = CleanReport {
            version: env!("CARGO_PKG_VERSION"),
            without: self.left_out.iter().map(|group| group.name()).collect(),
            lowest_score: self.cleaning.lowest_score.filter(|_| has_scores),
            pairs: self.cleaning.num_pairs(),
            ..CleanReport::default()
        };
        if !self.left_out.contains(&FilterGroup::Meaning) {
            report.estimates = self.cleaning.estimates.clone();
        }
        let gaps = self.cleaning.gaps.iter();
        let gaps = gaps.filter(|(group, _)| !self.left_out.contains(group));
        report.gaps = gaps.map(|(_, gap)| gap.clone()).collect();
        for index in 0..report.pairs {
            let Fate {
                language, reasons, ..
            } = self.fate(index);
            let Some(reason) = reasons.first() else {
                report.kept += 1;
                continue;
            };
            *report.removed.entry(reason.key).or_default() += 1;
            if reasons.has_one_group() {
                *report.removed_by_one_group.entry(reason.key).or_default() += 1;
            }
            if reason == LANGUAGE {
                let code = self.cleaning.languages[usize::from(language)];
                *report.languages.entry(code).or_default() += 1;
            }
        }
        report
    }
}
