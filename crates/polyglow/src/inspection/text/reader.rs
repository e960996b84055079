//! What is gathered while the pairs of a split go by.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use polyglow_data::config::Content;
use polyglow_data::corpus::Pair;
use polyglow_data::example::{CorpusReport, Reason};

use super::report::SplitReport;
use crate::inspection::findings::{Check, Collector, Finding, Place};
use crate::inspection::fit::Fit;
use crate::inspection::language::{Languages, Profile};
use crate::inspection::sides::Whole;

/// Whether a sentence is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Tgt,
}

/// Gathers the pairs of a split.
#[derive(Default)]
pub(super) struct Reader {
    name: String,
    content: Content,
    collector: Collector,
    fit: Fit,
    profiles: [Profile; 2],
    /// Hashes of the pairs so far.
    seen: HashSet<u64>,
    /// Characters of the sides of pairs that are used.
    chars: [u64; 2],
    /// Whether it was compared with the training text.
    pub(super) is_compared: bool,
}

impl Reader {
    pub(super) fn new(name: &str, content: Content, [src, tgt]: &[String; 2]) -> Self {
        let languages = match content {
            Content::Pairs => Languages::new(src, tgt),
            Content::Text | Content::Captions => Languages::new("", tgt),
            Content::LabeledText | Content::Images => Languages::default(),
        };
        Self { name: name.to_owned(), content, collector: Collector::new(languages), ..Self::default() }
    }

    /// Takes the next pair; `is_used` unless training leaves it out.
    pub(super) fn see(&mut self, file: &str, line: u64, pair: &Pair, is_used: bool) {
        let place = Place { file, line };
        // A blank line separates paragraphs and is not a repetition.
        let is_blank = pair.src.is_empty() && pair.tgt.is_empty();
        if !is_blank && !self.seen.insert(hash(&(&pair.src, &pair.tgt))) {
            self.collector.add(Check::Duplicates, place, pair, None);
        }
        self.collector.see(place, pair);
        if self.content == Content::Pairs {
            self.fit.add(file, line, pair);
            self.profiles[0].add(&pair.src);
            self.profiles[1].add(&pair.tgt);
        }
        if is_used {
            self.chars[0] += pair.src.chars().count() as u64;
            self.chars[1] += pair.tgt.chars().count() as u64;
        }
    }

    /// Notes a pair that somebody else found.
    pub(super) fn add(&mut self, check: Check, file: &str, line: u64, pair: &Pair, same_as: Option<String>) {
        self.collector.add(check, Place { file, line }, pair, same_as);
    }

    /// Notes why a pair is left out, unless there are examples of that already.
    pub(super) fn leave_out(&mut self, reason: Reason, report: &CorpusReport, file: &str, line: u64, pair: &Pair) {
        let (check, count) = match reason {
            Reason::Empty => (Check::Empty, report.empty),
            Reason::TooLong => (Check::TooLong, report.too_long),
            Reason::Ratio => (Check::Ratio, report.ratio),
        };
        if !self.collector.has_enough(check, count) {
            self.collector.add(check, Place { file, line }, pair, None);
        }
    }

    /// Whether there are examples of every reason to leave pairs out.
    pub(super) fn knows_left_out(&self, report: &CorpusReport) -> bool {
        left_out(report).into_iter().all(|(check, count)| self.collector.has_enough(check, count))
    }

    /// What was gathered, for a split with these counts of tokens.
    pub(super) fn finish(mut self, report: &CorpusReport) -> (SplitReport, Vec<Finding>, Whole) {
        for (check, count) in left_out(report) {
            self.collector.set_count(check, count);
        }
        let count = |check| self.collector.count(check);
        let in_train = |check| self.is_compared.then(|| count(check));
        let split = SplitReport {
            duplicates: count(Check::Duplicates),
            copies: count(Check::Copies),
            in_train: in_train(Check::SourceInTrain),
            targets_in_train: in_train(Check::TargetInTrain),
            length_correlation: self.fit.correlation(),
            ..SplitReport::new(&self.name, report, self.chars)
        };
        let whole = Whole { split: self.name.clone(), profiles: self.profiles, disorder: self.fit.disorder() };
        (split, self.collector.findings(&self.name, report.pairs), whole)
    }
}

/// The counts of the pairs that are left out.
fn left_out(report: &CorpusReport) -> [(Check, u64); 3] {
    [(Check::Empty, report.empty), (Check::TooLong, report.too_long), (Check::Ratio, report.ratio)]
}

pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_duplicate_only_if_both_sides_are() {
        let mut reader = Reader::new("train", Content::Pairs, &Default::default());
        let pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("ab", ""), ("a", "b"), ("d", "d"), ("", ""), ("", "")];
        for (line, (src, tgt)) in (1..).zip(pairs) {
            reader.see("a.en", line, &Pair { src: src.to_owned(), tgt: tgt.to_owned() }, true);
        }
        let (split, findings, _) = reader.finish(&CorpusReport { pairs: 8, kept: 8, ..CorpusReport::default() });
        assert_eq!((split.copies, split.duplicates, split.in_train), (1, 2, None));
        assert_eq!(findings[0].examples.iter().map(|example| example.line).collect::<Vec<_>>(), [3, 5]);
    }
}
