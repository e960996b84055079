//! A sentence pair as ids, the filter that selects pairs for training, and statistics of a corpus.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::{Content, DataConfig, TargetKind};
use crate::pair::Pair;

/// A sentence pair as token ids, without begin and end of sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    /// Source ids.
    pub src: Vec<u32>,
    /// Target ids.
    pub tgt: Vec<u32>,
}

/// A rule by which pairs are left out of training.
///
/// One of one's own is passed to
/// [`IdCache::open_or_build`](crate::id_cache::IdCache::open_or_build) as [`LengthFilter`] is:
///
/// ```
/// use polyglow_data::example::{Candidate, Filter, Reason};
///
/// struct NoLinks;
///
/// impl Filter for NoLinks {
///     fn reject(&self, candidate: &Candidate) -> Option<Reason> {
///         let links = Reason { key: "links", title: "with a link" };
///         candidate.pair.src.contains("http").then_some(links)
///     }
///
///     fn settings(&self) -> String {
///         "no links".to_owned()
///     }
/// }
/// ```
pub trait Filter: Send + Sync {
    /// Returns why a pair is left out; `None` if it is kept.
    fn reject(&self, candidate: &Candidate) -> Option<Reason>;

    /// Names the rule with all its settings. Ids on disk are made anew where this has changed.
    fn settings(&self) -> String;
}

/// A pair that may be trained on.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The text of both sides. Text that has one side stands in the target, and its source is empty.
    pub pair: &'a Pair,
    /// Tokens of the source. Of text that has one side they are those of the target, so that the
    /// missing side does not count as empty.
    pub src_len: usize,
    /// Tokens of the target.
    pub tgt_len: usize,
}

/// A reason for which pairs are left out of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// The name under which pairs are counted in reports: `too_long`.
    pub key: &'static str,
    /// The property that the pairs have in common, to follow their number: `too long`.
    pub title: &'static str,
}

impl Reason {
    /// A side has no tokens.
    pub const EMPTY: Self = Self {
        key: "empty",
        title: "with an empty side",
    };
    /// A side is longer than `data.max_len`.
    pub const TOO_LONG: Self = Self {
        key: "too_long",
        title: "too long",
    };
    /// The sides differ in length by more than `data.max_length_ratio`.
    pub const RATIO: Self = Self {
        key: "ratio",
        title: "by length ratio",
    };
    /// The reasons of [`LengthFilter`].
    pub const BY_LENGTH: [Self; 3] = [Self::EMPTY, Self::TOO_LONG, Self::RATIO];
}

/// Leaves out pairs by the lengths of their sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthFilter {
    /// Maximum length of a side, in tokens.
    pub max_len: usize,
    /// Maximum ratio of the longer side to the shorter, in tokens.
    pub max_length_ratio: f64,
}

/// Statistics of a corpus: how many pairs were read, and how many of them are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CorpusReport {
    /// Pairs read.
    pub pairs: u64,
    /// Pairs kept.
    pub kept: u64,
    /// Pairs left out, by the key of the reason.
    #[serde(flatten)]
    pub left_out: BTreeMap<String, u64>,
    /// Source sides of the pairs kept.
    pub src: SideReport,
    /// Target sides of the pairs kept.
    pub tgt: SideReport,
    /// The corpora that were read, in their order.
    pub parts: Vec<PartReport>,
}

/// Statistics of one side of the pairs that are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Number of tokens, without begin and end of sentence.
    pub tokens: u64,
    /// Number of tokens that are not in the vocabulary.
    pub unknown: u64,
    /// Length of the longest sentence, in tokens.
    pub longest: usize,
}

/// Statistics of one of the corpora of a split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartReport {
    /// Its source file, or its name if it is embedded.
    pub name: String,
    /// Pairs read.
    pub pairs: u64,
    /// Pairs kept.
    pub kept: u64,
}

/// Returns the filter by lengths that the `[data]` table asks for, for a corpus of this content; none
/// for a text that is read in windows, whose lines may have any length, and where blank ones divide
/// documents.
pub fn configured_filter(config: &DataConfig, content: Content) -> Option<Box<dyn Filter>> {
    if config.context_len.is_some() {
        return None;
    }
    // A label is one token, however long what it belongs to, and so is the tag of a word.
    let max_length_ratio = match content.target {
        TargetKind::Text => config.max_length_ratio,
        TargetKind::Label | TargetKind::Tags => f64::INFINITY,
    };
    Some(Box::new(LengthFilter {
        max_len: config.max_len,
        max_length_ratio,
    }))
}

impl LengthFilter {
    /// Returns why a pair with these lengths, in tokens, is left out; `None` if it is kept.
    pub fn reject_lengths(&self, src_len: usize, tgt_len: usize) -> Option<Reason> {
        let shorter = src_len.min(tgt_len);
        let longer = src_len.max(tgt_len);
        if shorter == 0 {
            Some(Reason::EMPTY)
        } else if longer > self.max_len {
            Some(Reason::TOO_LONG)
        } else if longer as f64 > self.max_length_ratio * shorter as f64 {
            Some(Reason::RATIO)
        } else {
            None
        }
    }
}

impl Filter for LengthFilter {
    fn reject(&self, candidate: &Candidate) -> Option<Reason> {
        self.reject_lengths(candidate.src_len, candidate.tgt_len)
    }

    fn settings(&self) -> String {
        // These words must stay as they are, so that the ids of earlier runs are still valid.
        format!(
            "Filter {{ max_len: {:?}, max_length_ratio: {:?} }}",
            self.max_len, self.max_length_ratio
        )
    }
}

/// Returns why a pair is left out of training: by the filter, if there is one, or because an id
/// cache cannot hold it. `None` if it is kept.
pub fn left_out(filter: Option<&dyn Filter>, candidate: &Candidate) -> Option<Reason> {
    // Two bytes per length keep the cache's tables small, and no model takes sentences longer than
    // that.
    if candidate.src_len.max(candidate.tgt_len) > usize::from(u16::MAX) {
        return Some(Reason::TOO_LONG);
    }
    filter.and_then(|filter| filter.reject(candidate))
}

impl CorpusReport {
    /// Returns how many pairs were left out for a reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.left_out.get(reason.key).copied().unwrap_or(0)
    }
}

impl SideReport {
    /// Mean length in tokens over `kept` sentences; 0 if there is none.
    pub fn mean_len(&self, kept: u64) -> f64 {
        if kept == 0 {
            0.0
        } else {
            self.tokens as f64 / kept as f64
        }
    }

    /// Share of unknown tokens, from 0 to 1; 0 if there are no tokens.
    pub fn unknown_rate(&self) -> f64 {
        if self.tokens == 0 {
            0.0
        } else {
            self.unknown as f64 / self.tokens as f64
        }
    }
}

/// Writes one line: how many pairs are kept, and how many are left out for which reason.
impl fmt::Display for CorpusReport {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(
            formatter,
            "{} of {} pairs kept; left out: ",
            self.kept, self.pairs
        )?;
        let mut parts: Vec<String> = Reason::BY_LENGTH
            .into_iter()
            .map(|reason| format!("{} {}", self.count(reason), reason.title))
            .collect();
        for (key, count) in &self.left_out {
            if Reason::BY_LENGTH.iter().all(|reason| reason.key != key) {
                parts.push(format!("{count} by {key}"));
            }
        }
        formatter.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_keeps_its_limits_and_rejects_beyond_them() {
        let filter = LengthFilter {
            max_len: 20,
            max_length_ratio: 2.5,
        };
        assert_eq!(filter.reject_lengths(20, 8), None);
        assert_eq!(filter.reject_lengths(8, 20), None);
        assert_eq!(filter.reject_lengths(21, 20), Some(Reason::TOO_LONG));
        assert_eq!(filter.reject_lengths(3, 8), Some(Reason::RATIO));
        assert_eq!(filter.reject_lengths(8, 3), Some(Reason::RATIO));
        assert_eq!(filter.reject_lengths(0, 3), Some(Reason::EMPTY));
        assert_eq!(filter.reject_lengths(3, 0), Some(Reason::EMPTY));
    }
}
