//! The reasons for which a pair may be removed, and sets of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::clean::cleaner::{DUPLICATE, TEMPLATE};
use crate::clean::held_out::{NEAR_TEST, TEST};
use crate::clean::lexical::{CUT, JOINED, MISALIGNED};
use crate::clean::rules::{REPEAT, RULES};
use crate::config::FilterGroup;
use crate::example::Reason;

/// The reason of a pair of which a side is in another language.
pub const LANGUAGE: Reason = Reason {
    key: "language",
    title: "with a side in another language",
};

/// The reason of a pair that scores less than others.
pub const SCORE: Reason = Reason {
    key: "score",
    title: "with a low score",
};

static REASONS: LazyLock<Vec<Reason>> = LazyLock::new(|| {
    let rules = RULES.iter().map(|rule| rule.reason);
    let others = [
        REPEAT, TEST, NEAR_TEST, DUPLICATE, TEMPLATE, LANGUAGE, MISALIGNED, CUT, JOINED, SCORE,
    ];
    rules.chain(others).collect()
});

/// The reasons of the group of each reason, in the order of [`reasons`].
static GROUPS: LazyLock<Vec<ReasonSet>> = LazyLock::new(|| {
    reasons()
        .map(|reason| ReasonSet::from_groups(&BTreeSet::from([FilterGroup::for_reason(reason)])))
        .collect()
});

/// Returns every reason for which a pair may be removed, in the order in which they are looked for.
pub fn reasons() -> impl Iterator<Item = Reason> {
    REASONS.iter().copied()
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonSet {
    /// A bit for each of [`reasons`], the lowest for the first.
    bits: u32,
}

impl ReasonSet {
    /// Returns the reasons of some groups of filters.
    pub fn from_groups(groups: &BTreeSet<FilterGroup>) -> Self {
        reasons()
            .filter(|reason| groups.contains(&FilterGroup::for_reason(*reason)))
            .collect()
    }

    /// Adds a reason.
    pub fn insert(&mut self, reason: Reason) {
        self.bits |= bit(reason);
    }

    /// Takes a reason out.
    pub fn remove(&mut self, reason: Reason) {
        self.bits &= !bit(reason);
    }

    /// Returns whether there is none.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Returns whether there are reasons, all of one group of filters.
    pub fn has_one_group(self) -> bool {
        let group = GROUPS.get(self.bits.trailing_zeros() as usize);
        group.is_some_and(|group| self.without(*group).is_empty())
    }

    /// Returns the reasons that are not in another set.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        let bits = self.bits & !others.bits;
        Self { bits }
    }

    /// Returns the reasons, in the order in which they are looked for.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        let has = move |index: &usize| self.bits >> index & 1 == 1;
        (0..REASONS.len()).filter(has).map(|index| REASONS[index])
    }

    /// Returns the reason that is looked for first.
    pub fn first(self) -> Option<Reason> {
        REASONS.get(self.bits.trailing_zeros() as usize).copied()
    }
}

impl Extend<Reason> for ReasonSet {
    fn extend<I: IntoIterator<Item = Reason>>(&mut self, reasons: I) {
        for reason in reasons {
            self.insert(reason);
        }
    }
}

impl FromIterator<Reason> for ReasonSet {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        let mut set = Self::default();
        set.extend(reasons);
        set
    }
}

fn bit(reason: Reason) -> u32 {
    let index = reasons().position(|other| other.key == reason.key);
    1 << index.expect("every reason is in the list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_reasons_in_the_order_in_which_they_are_looked_for() {
        let mut set = ReasonSet::default();
        assert!(set.is_empty() && set.first().is_none());
        assert!(!set.has_one_group());
        set.extend([SCORE, CUT, LANGUAGE, CUT]);
        assert_eq!((set.has_one_group(), set.first()), (false, Some(LANGUAGE)));
        let without = set.without(ReasonSet::from_groups(&[FilterGroup::Language].into()));
        assert_eq!(without, [CUT, SCORE].into_iter().collect());
        let meanings: ReasonSet = [JOINED, CUT].into_iter().collect();
        assert_eq!(
            (meanings.has_one_group(), meanings.first()),
            (true, Some(CUT))
        );
        set.remove(CUT);
        set.remove(CUT);
        assert_eq!(set.iter().collect::<Vec<_>>(), [LANGUAGE, SCORE]);
        // Every reason has a bit of its own.
        let mut all: ReasonSet = reasons().collect();
        for reason in reasons() {
            assert_eq!(all.first(), Some(reason));
            all.remove(reason);
        }
        assert!(all.is_empty());
    }
}
