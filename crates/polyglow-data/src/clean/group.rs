//! Groups of filters, which can be left out together.

use serde::Serialize;

use crate::clean::cleaner::{DUPLICATE, TEMPLATE};
use crate::clean::held_out::{NEAR_TEST, TEST};
use crate::clean::lexical::{CUT, JOINED, MISALIGNED};
use crate::clean::reasons::{LANGUAGE, SCORE};
use crate::clean::rules::{REPEAT, RULES};
use crate::example::Reason;

/// Filters that look for the same kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Repairs of what is written wrong.
    Repairs,
    /// Rules that look at a pair alone.
    Rules,
    /// Sentences of a validation or test set, exact or nearly.
    HeldOut,
    /// Pairs that repeat others.
    Duplicates,
    /// The languages of both sides.
    Language,
    /// What both sides say.
    Meaning,
    /// Scores that another program or a model has given.
    Scores,
}

impl Group {
    /// All groups, in the order in which they look at a pair.
    pub const ALL: [Self; 7] = [
        Self::Repairs,
        Self::Rules,
        Self::HeldOut,
        Self::Duplicates,
        Self::Language,
        Self::Meaning,
        Self::Scores,
    ];

    /// Returns the name of the group on a command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repairs => "repairs",
            Self::Rules => "rules",
            Self::HeldOut => "held-out",
            Self::Duplicates => "duplicates",
            Self::Language => "language",
            Self::Meaning => "meaning",
            Self::Scores => "scores",
        }
    }

    /// Returns the group of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

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
        let groups: Vec<Group> = reasons().map(Group::for_reason).collect();
        for group in Group::ALL {
            // Repairs remove nothing.
            assert_eq!(
                groups.contains(&group),
                group != Group::Repairs,
                "{group:?}"
            );
            assert_eq!(Group::from_name(group.name()), Some(group));
        }
        assert_eq!(Group::from_name("rule"), None);
    }
}
