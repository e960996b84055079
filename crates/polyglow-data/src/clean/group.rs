//! The group of filters that removes a pair for a reason.

use crate::clean::cleaner::{DUPLICATE, TEMPLATE};
use crate::clean::held_out::{NEAR_TEST, TEST};
use crate::clean::lexical::{CUT, JOINED, MISALIGNED};
use crate::clean::reasons::{LANGUAGE, SCORE};
use crate::clean::rules::{REPEAT, RULES};
use crate::config::FilterGroup;
use crate::example::Reason;

impl FilterGroup {
    /// Returns the group whose filters remove pairs for a reason.
    ///
    /// # Panics
    /// It is no reason of [`reasons`](crate::clean::reasons::reasons).
    pub fn for_reason(reason: Reason) -> Self {
        let is_any = |reasons: &[Reason]| reasons.iter().any(|other| other.key == reason.key);
        let rules = || RULES.iter().map(|rule| rule.reason).chain([REPEAT]);
        if rules().any(|rule| rule.key == reason.key) {
            Self::Rules
        } else if is_any(&[TEST, NEAR_TEST]) {
            Self::HeldOut
        } else if is_any(&[DUPLICATE, TEMPLATE]) {
            Self::Duplicates
        } else if is_any(&[LANGUAGE]) {
            Self::Language
        } else if is_any(&[MISALIGNED, CUT, JOINED]) {
            Self::Meaning
        } else if is_any(&[SCORE]) {
            Self::Scores
        } else {
            unreachable!("`{}` is no reason of cleaning", reason.key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::reasons::reasons;

    #[test]
    fn every_reason_has_a_group_and_every_name_is_found() {
        let groups: Vec<FilterGroup> = reasons().map(FilterGroup::for_reason).collect();
        for group in FilterGroup::ALL {
            // Repairs remove nothing.
            assert_eq!(
                groups.contains(&group),
                group != FilterGroup::Repairs,
                "{group:?}"
            );
            assert_eq!(FilterGroup::from_name(group.name()), Some(group));
        }
        assert_eq!(FilterGroup::from_name("rule"), None);
    }
}
