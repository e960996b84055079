//! The one-line record of how a score was computed; only scores with equal signatures can be
//! compared.

use std::fmt;

/// The name and version that mark a score as computed by this crate and not by sacreBLEU itself.
const VERSION: &str = concat!("polyglow-metrics-", env!("CARGO_PKG_VERSION"));

/// A signature such as
/// `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:polyglow-metrics-0.1.0`.
///
/// Keys, order and values are sacreBLEU's (Post, 2018); only the version names this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: &'static str,
    short: &'static str,
    value: String,
}

impl Entry {
    fn new((key, short, value): (&'static str, &'static str, String)) -> Self {
        Self { key, short, value }
    }
}

impl Signature {
    /// Starts a signature with the number of references, then adds the metric's own keys, each with
    /// its short form.
    pub(crate) fn new(
        num_references: usize,
        entries: impl IntoIterator<Item = (&'static str, &'static str, String)>,
    ) -> Self {
        let references = ("nrefs", "#", num_references.to_string());
        let version = ("version", "v", VERSION.to_owned());
        let entries = [references].into_iter().chain(entries).chain([version]);
        let entries = entries.map(Entry::new).collect();
        Self { entries }
    }

    /// Adds how the score was resampled: `bs`, bootstrap resamples; `ar`, randomization trials;
    /// `seed`, that of both.
    #[must_use]
    pub fn resampled(
        mut self,
        num_resamples: Option<usize>,
        num_trials: Option<usize>,
        seed: u64,
    ) -> Self {
        let resamples = num_resamples.map(|number| ("bs", "bs", number.to_string()));
        let trials = num_trials.map(|number| ("ar", "ar", number.to_string()));
        let entries = [resamples, trials, Some(("seed", "rs", seed.to_string()))];
        let entries = entries.into_iter().flatten().map(Entry::new);
        // The number of references comes first in every signature.
        self.entries.splice(1..1, entries);
        self
    }

    /// Returns the signature of segments with different numbers of references.
    #[must_use]
    pub fn with_varying_references(mut self) -> Self {
        "var".clone_into(&mut self.entries[0].value);
        self
    }

    /// Adds that hypotheses and references were normalized before they were compared, such as
    /// `nfc`: `norm` before the version. sacreBLEU itself has no such key, because it compares text
    /// as it stands.
    #[must_use]
    pub fn with_normalization(mut self, normalization: &str) -> Self {
        let before_version = self.entries.len() - 1;
        self.entries.insert(
            before_version,
            Entry::new(("norm", "norm", normalization.to_owned())),
        );
        self
    }

    /// Returns the keys and values in order, the version last.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|entry| (entry.key, entry.value.as_str()))
    }

    /// Returns the signature with abbreviated keys, such as `#:1|c:mixed|e:no|tok:13a|s:exp|v:...`.
    pub fn short(&self) -> String {
        let pairs = self
            .entries
            .iter()
            .map(|entry| format!("{}:{}", entry.short, entry.value));
        pairs.collect::<Vec<_>>().join("|")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            let separator = if index == 0 { "" } else { "|" };
            write!(formatter, "{separator}{}:{}", entry.key, entry.value)?;
        }
        Ok(())
    }
}

/// The value of `case` in a signature.
pub(crate) fn case_value(lowercase: bool) -> String {
    if lowercase { "lc" } else { "mixed" }.to_owned()
}

/// The value of a switch in a signature.
pub(crate) fn switch_value(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}
