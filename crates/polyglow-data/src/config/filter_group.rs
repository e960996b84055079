//! Groups of filters, which cleaning can leave out together.

use serde::{Deserialize, Serialize};

/// Filters that look for the same kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterGroup {
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
    /// The meaning of both sides: misaligned, cut and joined pairs.
    Meaning,
    /// Scores that another program or a model has given.
    Scores,
}

impl FilterGroup {
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
}
