//! Collects the findings and the figures of a split while its pairs are read.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use polyglow_data::config::{Content, TargetKind};
use polyglow_data::error::DataError;
use polyglow_data::example::{CorpusReport, Reason};
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};

use super::report::SplitReport;
use crate::inspection::fit::Fit;
use crate::inspection::sides::Whole;
use polyglow_data::clean::findings::{Check, Collector, Finding, Place, SplitText};
use polyglow_data::clean::language::{Languages, Profile};

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
    /// Words of each side that normalization changes.
    changed_words: [u64; 2],
    /// Whether it was compared with the training text.
    pub(super) is_compared: bool,
}

impl Reader {
    pub(super) fn new(name: &str, content: Content, [src, tgt]: &[String; 2]) -> Self {
        let languages = match content.target {
            TargetKind::Text if content.is_parallel() => Languages::new(src, tgt),
            TargetKind::Text => Languages::new("", tgt),
            _ => Languages::default(),
        };
        Self {
            name: name.to_owned(),
            content,
            collector: Collector::new(languages),
            ..Self::default()
        }
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
        if self.content.is_parallel() {
            self.fit.add(file, line, pair);
            self.profiles[0].add(&pair.src);
            self.profiles[1].add(&pair.tgt);
        }
        if is_used {
            self.chars[0] += pair.src.chars().count() as u64;
            self.chars[1] += pair.tgt.chars().count() as u64;
        }
    }

    /// Notes a pair that was found elsewhere.
    pub(super) fn add(
        &mut self,
        check: Check,
        file: &str,
        line: u64,
        pair: &Pair,
        same_as: Option<String>,
    ) {
        self.collector
            .add(check, Place { file, line }, pair, same_as);
    }

    /// Notes why a pair is not trained on, or would not be.
    pub(super) fn leave_out(&mut self, reason: Reason, file: &str, line: u64, pair: &Pair) {
        self.collector.leave_out(reason, Place { file, line }, pair);
    }

    /// Counts the words of a pair that the tokenizers' normalization changes.
    ///
    /// # Errors
    /// A foreign tokenizer fails.
    pub(super) fn count_changes(
        &mut self,
        pair: &Pair,
        tokenizers: &Tokenizers,
    ) -> Result<(), DataError> {
        let sides = [(&pair.src, &tokenizers.src), (&pair.tgt, &tokenizers.tgt)];
        for (changed, (text, tokenizer)) in self.changed_words.iter_mut().zip(sides) {
            *changed += changed_words(text, tokenizer)?;
        }
        Ok(())
    }

    /// Returns the report of a split with these counts of tokens, its findings, and its sides as a
    /// whole. Its text is cleaned before it is encoded, or is not; `is_cleanable` says whether
    /// `polyglow clean` takes it.
    pub(super) fn finish(
        mut self,
        report: &CorpusReport,
        is_cleaned: bool,
        is_cleanable: bool,
    ) -> (SplitReport, Vec<Finding>, Whole) {
        let collector = &self.collector;
        let mut split = SplitReport {
            empty: collector.count(Check::Empty),
            too_long: collector.count(Check::TooLong),
            ratio: collector.count(Check::Ratio),
            duplicates: collector.count(Check::Duplicates),
            copies: collector.count(Check::Copies),
            in_train: self
                .is_compared
                .then(|| collector.count(Check::SourceInTrain)),
            targets_in_train: self
                .is_compared
                .then(|| collector.count(Check::TargetInTrain)),
            length_correlation: self.fit.correlation(),
            ..SplitReport::new(&self.name, report, self.chars)
        };
        split.src.changed_words = self.changed_words[0];
        split.tgt.changed_words = self.changed_words[1];
        let whole = Whole {
            split: self.name.clone(),
            profiles: self.profiles,
            disorder: self.fit.disorder(),
        };
        (
            split,
            self.collector.findings(SplitText {
                split: &self.name,
                pairs: report.pairs,
                is_cleaned,
                is_parallel: self.content.is_parallel(),
                is_cleanable,
            }),
            whole,
        )
    }
}

/// The words of a text that a tokenizer's normalization changes.
fn changed_words(text: &str, tokenizer: &Tokenizer) -> Result<u64, DataError> {
    if text.is_ascii() || tokenizer.normalized(text)? == text {
        return Ok(0);
    }
    let mut changed = 0;
    for word in text.split_whitespace() {
        changed += u64::from(tokenizer.normalized(word)? != word);
    }
    Ok(changed)
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
        let mut reader = Reader::new("train", Content::PAIRS, &Default::default());
        let pairs = [
            ("a", "b"),
            ("a", "c"),
            ("a", "b"),
            ("ab", ""),
            ("a", "b"),
            ("d", "d"),
            ("", ""),
            ("", ""),
        ];
        for (line, (src, tgt)) in (1..).zip(pairs) {
            reader.see(
                "a.en",
                line,
                &Pair {
                    src: src.to_owned(),
                    tgt: tgt.to_owned(),
                },
                true,
            );
        }
        let (split, findings, _) = reader.finish(
            &CorpusReport {
                pairs: 8,
                kept: 8,
                ..CorpusReport::default()
            },
            true,
            true,
        );
        assert_eq!(
            (split.copies, split.duplicates, split.in_train),
            (1, 2, None)
        );
        assert_eq!(
            findings[0]
                .examples
                .iter()
                .map(|example| example.line)
                .collect::<Vec<_>>(),
            [3, 5]
        );
        assert_eq!(findings[0].lines["a.en"], [3, 5]);
    }
}
