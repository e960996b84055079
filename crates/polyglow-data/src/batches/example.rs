//! A sentence pair as ids, the filter that selects pairs for training, and statistics of a corpus.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::{Content, DataConfig, TargetKind};

/// A sentence pair as token ids, without begin and end of sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    /// Source ids.
    pub src: Vec<u32>,
    /// Target ids.
    pub tgt: Vec<u32>,
}

/// Selects the pairs to train on, by their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Maximum length of a side, in tokens.
    pub max_len: usize,
    /// Maximum ratio of the longer side to the shorter, in tokens.
    pub max_length_ratio: f64,
}

/// Why a pair is left out of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A side has no tokens.
    Empty,
    /// A side is longer than `max_len`.
    TooLong,
    /// The sides differ in length by more than `max_length_ratio`.
    Ratio,
}

/// Statistics of a corpus: how many pairs were read, and how many of them are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CorpusReport {
    /// Pairs read.
    pub pairs: u64,
    /// Pairs kept.
    pub kept: u64,
    /// Pairs left out because a side is empty.
    pub empty: u64,
    /// Pairs left out because a side is longer than `max_len`.
    pub too_long: u64,
    /// Pairs left out because their lengths differ by more than `max_length_ratio`.
    pub ratio: u64,
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

impl Filter {
    /// The filter that the `[data]` table asks for, for a corpus of this content; none for a text
    /// that is read in windows, whose lines may have any length, and where blank ones divide
    /// documents.
    pub fn new(config: &DataConfig, content: Content) -> Option<Self> {
        if config.context_len.is_some() {
            return None;
        }
        // A label is one token, however long what it belongs to, and so is the tag of a word.
        let max_length_ratio = match content.target {
            TargetKind::Text => config.max_length_ratio,
            TargetKind::Label | TargetKind::Tags => f64::INFINITY,
        };
        Some(Self {
            max_len: config.max_len,
            max_length_ratio,
        })
    }

    /// Why a pair with these lengths, in tokens, is left out; `None` if it is kept.
    pub fn reject(&self, src_len: usize, tgt_len: usize) -> Option<Reason> {
        let (shorter, longer) = (src_len.min(tgt_len), src_len.max(tgt_len));
        if shorter == 0 {
            Some(Reason::Empty)
        } else if longer > self.max_len {
            Some(Reason::TooLong)
        } else if longer as f64 > self.max_length_ratio * shorter as f64 {
            Some(Reason::Ratio)
        } else {
            None
        }
    }
}

/// Why a pair is left out of training: by the filter, if there is one, or because an id cache
/// cannot hold it. `None` if it is kept.
///
/// The missing side of one-sided text must not count as empty: `src_len` is then that of the text,
/// too.
pub fn left_out(filter: Option<&Filter>, src_len: usize, tgt_len: usize) -> Option<Reason> {
    // Two bytes per length keep the cache's tables small, and no model takes sentences longer than
    // that.
    if src_len.max(tgt_len) > usize::from(u16::MAX) {
        return Some(Reason::TooLong);
    }
    filter.and_then(|filter| filter.reject(src_len, tgt_len))
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
            "{} of {} pairs kept; left out: {} with an empty side, {} too long, {} by length ratio",
            self.kept, self.pairs, self.empty, self.too_long, self.ratio
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_keeps_its_limits_and_rejects_beyond_them() {
        let filter = Filter {
            max_len: 20,
            max_length_ratio: 2.5,
        };
        assert_eq!(filter.reject(20, 8), None);
        assert_eq!(filter.reject(8, 20), None);
        assert_eq!(filter.reject(21, 20), Some(Reason::TooLong));
        assert_eq!(filter.reject(3, 8), Some(Reason::Ratio));
        assert_eq!(filter.reject(8, 3), Some(Reason::Ratio));
        assert_eq!(filter.reject(0, 3), Some(Reason::Empty));
        assert_eq!(filter.reject(3, 0), Some(Reason::Empty));
    }
}
