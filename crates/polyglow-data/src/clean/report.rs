//! The counts of a cleaning.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::clean::filtered::Cleaned;
use crate::error::DataError;

/// The least estimated share that is shown.
const LEAST_SHOWN: f64 = 5e-4;

/// Counts of the pairs that were changed and removed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CleanReport {
    /// The version of polyglow that cleaned.
    pub version: &'static str,
    /// The files of the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The names of the groups of filters that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<&'static str>,
    /// The lowest score that stays, if pairs are removed by their scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest_score: Option<f32>,
    /// Pairs that were looked at.
    pub pairs: u64,
    /// Pairs that stay.
    pub kept: u64,
    /// A sentence for each group of filters that had too little text to learn from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// Pairs that stay and were repaired, by repair; one may have needed several.
    pub repaired: BTreeMap<&'static str, u64>,
    /// Pairs that are removed, by the key of the first reason.
    pub removed: BTreeMap<&'static str, u64>,
    /// Counts of the removed pairs that no filter of another
    /// [`FilterGroup`](crate::config::FilterGroup) would remove. Duplicates are only looked for
    /// among pairs that no rule and no held-out set removes.
    pub removed_by_one_group: BTreeMap<&'static str, u64>,
    /// Counts of the foreign sides among pairs that are removed for their language, by language.
    pub languages: BTreeMap<&'static str, u64>,
    /// The estimated share of the pairs, after the second reading, that are misaligned, cut or
    /// joined, by the key of the reason; empty if there are too few pairs to say.
    pub estimates: BTreeMap<&'static str, f64>,
}

impl CleanReport {
    /// Returns the estimates that are more than nothing in percent with one digit: where heads find
    /// nothing to remove, there may be some noise that they do not tell from free translations.
    pub fn shown_estimates(&self) -> impl Iterator<Item = (&'static str, f64)> + use<'_> {
        let estimates = self.estimates.iter().map(|(key, share)| (*key, *share));
        estimates.filter(|(_, share)| *share >= LEAST_SHOWN)
    }

    /// Returns the counts of removed pairs as text, the largest first: `duplicate 12, empty 3`;
    /// `none` without any.
    pub fn removed_by_count(&self) -> String {
        let mut counts: Vec<(&str, u64)> = Vec::new();
        for (reason, count) in &self.removed {
            counts.push((reason, *count));
        }
        counts.sort_by_key(|(reason, count)| (Reverse(*count), *reason));
        let counts: Vec<String> = counts
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        if counts.is_empty() {
            "none".to_owned()
        } else {
            counts.join(", ")
        }
    }

    /// Makes sure that a pair stays, if there are any.
    ///
    /// # Errors
    /// [`DataError::NothingStays`], which names the reason that removes most.
    pub fn check_not_empty(&self) -> Result<(), DataError> {
        let most = self.removed.iter().max_by_key(|(_, count)| **count);
        match most {
            Some((&reason, &count)) if self.kept == 0 => Err(DataError::NothingStays {
                pairs: self.pairs,
                reason,
                count,
            }),
            _ => Ok(()),
        }
    }

    /// Counts what was repaired in a pair that stays.
    pub fn count_repairs(&mut self, cleaned: &Cleaned) {
        for name in cleaned.repair_names() {
            *self.repaired.entry(name).or_default() += 1;
        }
    }
}
