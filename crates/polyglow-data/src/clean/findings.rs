//! Findings about single pairs of the text: how many pairs are odd in some way, some of them with
//! their lines, and how they are treated.
//!
//! A detector is a row of [`DETECTORS`]; one collector counts for all of them, and keeps the first
//! examples of each.

mod characters;
mod detectors;

use std::collections::BTreeMap;

use crate::example::Reason;
use crate::pair::Pair;
use serde::Serialize;

use super::language::Languages;
pub(crate) use characters::{byte_1252, character_1252};
pub use detectors::Detector;
pub use detectors::{Check, DETECTORS};

/// Examples that are kept of each finding.
const EXAMPLES: usize = 3;
/// Characters of a side that are shown.
const SHOWN: usize = 60;

/// Pairs of a split that have something in common that is rarely intended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The check that these pairs failed.
    pub check: Check,
    /// The split.
    pub split: String,
    /// The number of pairs.
    pub count: u64,
    /// Their share of the split, 0 to 1.
    pub share: f64,
    /// The property that they have in common, to follow `12 pairs`.
    pub what: &'static str,
    /// The treatment of these pairs in training and scoring, in words.
    pub fate: &'static str,
    /// The advice to the user.
    pub advice: &'static str,
    /// The share up to which it is usual in good text.
    #[serde(skip)]
    pub tolerated: f64,
    /// The first of them.
    pub examples: Vec<Example>,
    /// The lines of all of them, by file, counted from 1; not in the inspection that a run keeps.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, Vec<u64>>,
}

/// One pair of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The file, or its source side's.
    pub file: String,
    /// The line in it, counted from 1.
    pub line: u64,
    /// The source, cut off where it is long.
    pub src: String,
    /// The target, cut off where it is long.
    pub tgt: String,
    /// The line of the training text that it repeats, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Why a filter of the program's own leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// The file and the line of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a str,
    /// The line, counted from 1.
    pub line: u64,
}

/// A split whose text was looked at, for [`Collector::findings`].
#[derive(Clone, Copy, Debug)]
pub struct SplitText<'a> {
    /// Its name.
    pub split: &'a str,
    /// The number of its pairs.
    pub pairs: u64,
    /// Whether it is cleaned before it is encoded.
    pub is_cleaned: bool,
    /// Whether its pairs are sentences and their translations.
    pub is_parallel: bool,
    /// Whether `polyglow clean` takes such text.
    pub is_cleanable: bool,
}

/// The pairs that failed one check, so far.
#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    examples: Vec<Example>,
    lines: BTreeMap<String, Vec<u64>>,
}

/// Collects the findings of a split, pair by pair.
#[derive(Default)]
pub struct Collector {
    languages: Languages,
    /// One for each of [`DETECTORS`], in their order.
    tallies: [Tally; DETECTORS.len()],
}

impl Collector {
    /// Begins without any finding, for text of these languages.
    pub fn new(languages: Languages) -> Self {
        Self {
            languages,
            ..Self::default()
        }
    }

    /// Applies every detector that needs no more than the pair.
    pub fn see(&mut self, place: Place<'_>, pair: &Pair) {
        for detector in DETECTORS {
            if detector
                .test
                .is_some_and(|test| test(pair, &self.languages))
            {
                self.add(detector.check, place, pair, None);
            }
        }
    }

    /// Adds a pair that fails `check`, which the caller has found out by other means. `same_as` is
    /// the line that it repeats.
    pub fn add(&mut self, check: Check, place: Place<'_>, pair: &Pair, same_as: Option<String>) {
        self.add_example(check, place, pair, same_as, None);
    }

    /// Adds a pair that training leaves out for a reason.
    pub fn leave_out(&mut self, reason: Reason, place: Place<'_>, pair: &Pair) {
        let by_length = [Check::Empty, Check::TooLong, Check::Ratio];
        let by_length = by_length
            .into_iter()
            .find(|check| check.name() == reason.key);
        match by_length {
            Some(check) => self.add_example(check, place, pair, None, None),
            None => self.add_example(Check::Filtered, place, pair, None, Some(reason.title)),
        }
    }

    fn add_example(
        &mut self,
        check: Check,
        place: Place<'_>,
        pair: &Pair,
        same_as: Option<String>,
        reason: Option<&'static str>,
    ) {
        let Place { file, line } = place;
        let tally = &mut self.tallies[check as usize];
        tally.count += 1;
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(Example {
                file: file.to_owned(),
                line,
                src: shown(&pair.src),
                tgt: shown(&pair.tgt),
                same_as,
                reason,
            });
        }
        // Most lines are of a file that is known, whose name is not copied again.
        match tally.lines.get_mut(file) {
            Some(lines) => lines.push(line),
            None => _ = tally.lines.insert(file.to_owned(), vec![line]),
        }
    }

    /// Returns the number of pairs that have failed a check.
    pub fn count(&self, check: Check) -> u64 {
        self.tallies[check as usize].count
    }

    /// Returns the findings of the text of a split.
    pub fn findings(self, text: SplitText<'_>) -> Vec<Finding> {
        let SplitText {
            split,
            pairs,
            is_cleaned,
            is_parallel,
            is_cleanable,
        } = text;
        let is_train = split == "train";
        let mut findings = Vec::new();
        for (detector, tally) in DETECTORS.iter().zip(self.tallies) {
            if tally.count == 0 {
                continue;
            }
            findings.push(Finding {
                check: detector.check,
                split: split.to_owned(),
                count: tally.count,
                share: tally.count as f64 / pairs.max(1) as f64,
                what: detector.description(is_parallel),
                fate: detector.fate(is_train, is_cleaned),
                advice: detector.advice_on(is_cleanable),
                tolerated: detector.tolerated(is_train, is_cleaned),
                examples: tally.examples,
                lines: tally.lines,
            });
        }
        findings
    }
}

impl Finding {
    /// Whether there are more of them than are usual in good text.
    pub fn is_suspicious(&self) -> bool {
        self.share > self.tolerated
    }
}

/// Returns a text as it can be printed on one line: characters that would move the cursor or hide are
/// escaped.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if characters::is_hidden(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns the start of a text as it can be printed.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => escaped(&text[..end]) + "…",
        None => escaped(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_examples_are_kept_with_their_lines_and_all_are_counted() {
        let mut collector = Collector::new(Languages::default());
        for line in 1..=5 {
            collector.see(Place { file: "a.en", line }, &Pair::new("a &amp; b", "c"));
        }
        collector.see(
            Place {
                file: "a.en",
                line: 6,
            },
            &Pair::new("same", "same"),
        );
        let findings = collector.findings(SplitText {
            split: "train",
            pairs: 10,
            is_cleaned: false,
            is_parallel: true,
            is_cleanable: true,
        });
        let of = |finding: &Finding| {
            (
                finding.check,
                finding.count,
                finding.share,
                finding.examples.len(),
            )
        };
        assert_eq!(
            findings.iter().map(of).collect::<Vec<_>>(),
            [(Check::Copies, 1, 0.1, 1), (Check::Html, 5, 0.5, 3)]
        );
        assert_eq!(findings[1].examples[2].line, 3);
        assert!(
            findings
                .iter()
                .all(|finding| finding.fate.contains("trained on"))
        );
        assert!(findings[1].advice.contains("polyglow clean"));
    }

    #[test]
    fn the_advice_on_text_that_is_not_cleaned_names_no_command_that_cleans() {
        for detector in DETECTORS {
            let advice = detector.advice_on(false);
            assert!(!advice.contains("polyglow clean"), "{advice}");
        }
    }

    #[test]
    fn what_is_shown_fits_on_a_line_and_hides_nothing() {
        assert_eq!(shown("a\tb\u{200b}c"), "a\\u{9}b\\u{200b}c");
        assert_eq!(shown(&"ä".repeat(61)).chars().count(), 61);
        assert_eq!(shown(&"ä".repeat(60)), "ä".repeat(60));
    }
}
