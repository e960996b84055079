//! The table of detectors: each has a test, and the words that describe its findings.

use crate::pair::Pair;
use serde::Serialize;

use super::characters::{has_entities, has_hidden, has_other_spaces, is_mojibake, lost_characters};
use crate::clean::language::Languages;

/// The check of a detector, in the order of [`DETECTORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// A side without a token.
    Empty,
    /// A side above `data.max_len`.
    TooLong,
    /// Lengths above `data.max_length_ratio`.
    Ratio,
    /// A reason of a filter that the program has registered.
    Filtered,
    /// A pair that repeats an earlier one.
    Duplicates,
    /// A target that is its source.
    Copies,
    /// Entities and tags of HTML.
    Html,
    /// Text that was read in a wrong encoding.
    Mojibake,
    /// Characters that were lost before.
    Lost,
    /// Characters that cannot be seen.
    Hidden,
    /// Spaces that are not the plain one.
    Spaces,
    /// A script that the language is not written in.
    Script,
    /// Words of another language.
    Language,
    /// A source that is also in the training text.
    SourceInTrain,
    /// A target that is also in the training text.
    TargetInTrain,
}

impl Check {
    /// The name in reports and of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::Ratio => "ratio",
            Self::Filtered => "filtered",
            Self::Duplicates => "duplicates",
            Self::Copies => "copies",
            Self::Html => "html",
            Self::Mojibake => "mojibake",
            Self::Lost => "lost",
            Self::Hidden => "hidden",
            Self::Spaces => "spaces",
            Self::Script => "script",
            Self::Language => "language",
            Self::SourceInTrain => "source_in_train",
            Self::TargetInTrain => "target_in_train",
        }
    }
}

/// A row of the table.
pub struct Detector {
    /// The check.
    pub check: Check,
    /// The property that its pairs have in common, to follow `12 pairs`.
    pub what: &'static str,
    /// The advice to the user on text that `polyglow clean` takes.
    pub advice: &'static str,
    /// The advice on other text; `None` if it is the same.
    pub other_advice: Option<&'static str>,
    /// The share up to which it is usual in good text.
    pub tolerated: f64,
    /// Returns whether a pair fails the check; `None` where that needs more than the pair.
    pub test: Option<fn(&Pair, &Languages) -> bool>,
}

impl Detector {
    /// Whether cleaning before encoding removes what it detects.
    fn is_cleanable(&self) -> bool {
        matches!(self.check, Check::Hidden | Check::Spaces)
    }

    /// The share up to which it is usual in good text. A held-out set has no pair without a
    /// reference.
    pub fn tolerated(&self, is_train: bool, is_cleaned: bool) -> f64 {
        match self.check {
            Check::Empty if !is_train => 0.0,
            _ if is_cleaned && self.is_cleanable() => 1.0,
            _ => self.tolerated,
        }
    }

    /// Returns the property that its pairs have in common, to follow `12 pairs`, of a text that is parallel
    /// or not.
    pub fn description(&self, is_parallel: bool) -> &'static str {
        match self.check {
            // The target may be another translation.
            Check::SourceInTrain if is_parallel => {
                "have a source that is also in the training text"
            }
            _ => self.what,
        }
    }

    /// Returns the advice to the user on a text, which `polyglow clean` takes or not.
    pub fn advice_on(&self, is_cleanable: bool) -> &'static str {
        match self.other_advice {
            Some(advice) if !is_cleanable => advice,
            _ => self.advice,
        }
    }

    /// Says how its pairs are treated, in the training text or in a set that is held out.
    pub fn fate(&self, is_train: bool, is_cleaned: bool) -> &'static str {
        match self.check {
            _ if is_cleaned && self.is_cleanable() => {
                "cleaned before they are encoded (`tokenizer.clean_text`)"
            }
            Check::Empty | Check::TooLong | Check::Ratio | Check::Filtered if is_train => {
                "left out of the training"
            }
            _ if is_train => "trained on as it stands",
            Check::SourceInTrain | Check::TargetInTrain => "trained on, and counted in the scores",
            _ => "counted in the scores as it stands",
        }
    }
}

/// Every detector, in the order of [`Check`].
pub const DETECTORS: &[Detector] = &[
    Detector {
        check: Check::Empty,
        what: "have an empty side",
        advice: "look whether lines belong together",
        other_advice: None,
        tolerated: 0.1,
        test: None,
    },
    Detector {
        check: Check::TooLong,
        what: "are longer than `data.max_len`",
        advice: "raise `data.max_len`, or split them into sentences",
        other_advice: None,
        tolerated: 0.1,
        test: None,
    },
    Detector {
        check: Check::Ratio,
        what: "have one side far longer than the other, above `data.max_length_ratio` in tokens",
        advice: "look whether lines belong together, and whether the tokenizer was made for both languages",
        other_advice: None,
        tolerated: 0.01,
        test: None,
    },
    Detector {
        check: Check::Filtered,
        what: "are refused by a filter of `data.filters`",
        advice: "look whether the filter refuses what it should",
        other_advice: None,
        // The user asked for the filter, and needs no warning that it works.
        tolerated: 1.0,
        test: None,
    },
    Detector {
        check: Check::Duplicates,
        what: "repeat an earlier one",
        advice: "`polyglow clean` removes them: repeated pairs are memorized, and count several times in scores",
        other_advice: Some(
            "leave them out: repeated texts are memorized, and count several times in scores",
        ),
        tolerated: 0.02,
        test: None,
    },
    Detector {
        check: Check::Copies,
        what: "have a target that is their source",
        advice: "`polyglow clean` removes them: a model that sees copies learns to copy",
        other_advice: Some("leave them out: a model that sees copies learns to copy"),
        tolerated: 0.02,
        test: Some(|pair, _| pair.src == pair.tgt && !pair.src.is_empty()),
    },
    Detector {
        check: Check::Html,
        what: "have entities or tags of HTML, such as `&amp;` or `<b>`",
        advice: "`polyglow clean` turns entities into characters and removes tags; what is learned is also written",
        other_advice: Some(
            "turn entities into characters and remove tags before training; what is learned is also written",
        ),
        tolerated: 0.01,
        test: Some(|pair, _| on_a_side(pair, has_entities)),
    },
    Detector {
        check: Check::Mojibake,
        what: "look as if UTF-8 was read as Windows-1252, such as `Ã©` for `é`",
        advice: "`polyglow clean` reads these lines again; what is learned is also written",
        other_advice: Some(
            "read the file again in its own encoding; what is learned is also written",
        ),
        tolerated: 0.001,
        test: Some(|pair, _| on_a_side(pair, is_mojibake)),
    },
    Detector {
        check: Check::Lost,
        what: "have U+FFFD, which stands for characters that an earlier program could not read",
        advice: "make the file again from its origin, or let `polyglow clean` remove them: the characters are lost",
        other_advice: Some("make the file again from its origin: the characters are lost"),
        tolerated: 0.001,
        test: Some(|pair, _| on_a_side(pair, lost_characters)),
    },
    Detector {
        check: Check::Hidden,
        what: "have control characters, tabs or marks that cannot be seen",
        advice: "`polyglow clean` removes these characters",
        other_advice: Some("remove these characters, or set `tokenizer.clean_text = true`"),
        tolerated: 0.01,
        test: Some(|pair, _| on_a_side(pair, has_hidden)),
    },
    Detector {
        check: Check::Spaces,
        what: "have spaces other than the plain one, such as U+00A0 or U+3000",
        advice: "`polyglow clean` makes plain spaces of them, which have other tokens, and so does `tokenizer.clean_text = true`",
        other_advice: Some(
            "`tokenizer.clean_text = true` makes plain spaces of them, which have other tokens",
        ),
        tolerated: 0.01,
        test: Some(|pair, _| on_a_side(pair, has_other_spaces)),
    },
    Detector {
        check: Check::Script,
        what: "have a side in a script that its language is not written in",
        advice: "look at the examples; `polyglow clean` removes what is of another language",
        other_advice: Some("look at the examples"),
        tolerated: 0.01,
        test: Some(|pair, languages| {
            languages
                .sides(pair)
                .any(|(side, text)| side.is_foreign_script(text))
        }),
    },
    Detector {
        check: Check::Language,
        what: "have a side whose words are those of another language",
        advice: "look at the examples; `polyglow clean` removes what is of another language",
        other_advice: Some("look at the examples"),
        tolerated: 0.01,
        test: Some(|pair, languages| {
            languages
                .sides(pair)
                .any(|(side, text)| side.is_foreign_language(text))
        }),
    },
    Detector {
        check: Check::SourceInTrain,
        what: "are also in the training text",
        advice: "`polyglow clean` removes them from it: scores on what was trained on say little about other text",
        other_advice: Some(
            "leave them out of it: scores on what was trained on say little about other text",
        ),
        tolerated: 0.0,
        test: None,
    },
    Detector {
        check: Check::TargetInTrain,
        what: "have a target that is also in the training text",
        advice: "look at them: short and frequent sentences may be, but not the same text in other words; `polyglow clean` removes all of them from it",
        other_advice: Some(
            "look at them: short and frequent ones may be, but not the same text in other words",
        ),
        tolerated: 0.1,
        test: None,
    },
];

/// Whether at least one side of a pair fails a test.
fn on_a_side(pair: &Pair, test: fn(&str) -> bool) -> bool {
    test(&pair.src) || test(&pair.tgt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detector_stands_at_the_place_of_its_check() {
        for (place, detector) in DETECTORS.iter().enumerate() {
            assert_eq!(detector.check as usize, place, "{:?}", detector.check);
            let name = serde_json::to_value(detector.check).expect("it is a name");
            assert_eq!(
                name,
                detector.check.name(),
                "reports and files name it alike"
            );
        }
    }

    #[test]
    fn every_detector_finds_what_it_looks_for_and_nothing_in_good_text() {
        let languages = Languages::new("en", "fr");
        let found = |src: &str, tgt: &str| {
            let pair = Pair {
                src: src.to_owned(),
                tgt: tgt.to_owned(),
            };
            let found = DETECTORS
                .iter()
                .filter(|detector| detector.test.is_some_and(|test| test(&pair, &languages)));
            found.map(|detector| detector.check).collect::<Vec<_>>()
        };
        assert_eq!(
            found(
                "The dog is in the garden.",
                "Le chien est dans le jardin « là-bas »."
            ),
            []
        );
        assert_eq!(found("Moscow", "Moscow"), [Check::Copies]);
        assert_eq!(found("salt &amp; pepper", "sel et poivre"), [Check::Html]);
        assert_eq!(
            found("an <i>old</i> house", "une vieille maison"),
            [Check::Html]
        );
        assert_eq!(found("the summer", "l'Ã©tÃ©"), [Check::Mojibake]);
        assert_eq!(found("the summer", "l'\u{fffd}t\u{fffd}"), [Check::Lost]);
        assert_eq!(found("the\tsummer", "l'été"), [Check::Hidden]);
        assert_eq!(found("the price", "12\u{202f}000\u{a0}€"), [Check::Spaces]);
        assert_eq!(found("the dog", "собака в саду"), [Check::Script]);
        assert_eq!(
            found(
                "the dog",
                "der Hund ist nicht in dem Garten und auch nicht hier"
            ),
            [Check::Language]
        );
    }
}
