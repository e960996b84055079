//! Language codes, as TMX and configurations have them.

use std::fmt;

/// A language by its subtags in lower case: `pt-BR` and `pt_br` are `pt`, `br`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::text::corpus) struct Language(Vec<String>);

impl Language {
    /// Reads a code such as `en`, `en-US` or `pt_br`.
    pub(in crate::text::corpus) fn new(code: &str) -> Self {
        let code = code.trim().to_lowercase();
        Self(code.split(['-', '_']).map(str::to_owned).collect())
    }

    /// Whether a text in `other` is in this language: `en` includes `en-US`, but not the other way
    /// round.
    pub(super) fn includes(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The number of its subtags: 1 without a region.
    pub(super) fn num_subtags(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("-"))
    }
}
