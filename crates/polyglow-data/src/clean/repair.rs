//! Repairs of text that can still be read: a wrong encoding, remains of HTML, invisible characters.
//!
//! The order matters: no-break spaces, soft hyphens and control characters are bytes of a wrong
//! encoding, which must be read before they are removed.

mod markup;
mod mojibake;

use std::borrow::Cow;

use serde::Serialize;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::clean::profile::SideProfile;

/// The repairs that a sentence needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// UTF-8 that had been read as Latin-1 or Windows-1252, up to three times.
    pub mojibake: bool,
    /// Tags and entities of HTML.
    pub html: bool,
    /// Control characters, invisible characters, letters in pieces (NFD).
    pub unicode: bool,
}

impl Repairs {
    /// Returns whether there was any.
    pub fn any(self) -> bool {
        self.mojibake || self.html || self.unicode
    }

    /// Returns the repairs of two sides together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            mojibake: self.mojibake || other.mojibake,
            html: self.html || other.html,
            unicode: self.unicode || other.unicode,
        }
    }

    /// Returns the names of the repairs that were made.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.mojibake, "mojibake"),
            (self.html, "html"),
            (self.unicode, "unicode"),
        ];
        all.into_iter()
            .filter_map(|(is_made, name)| is_made.then_some(name))
    }
}

/// Repairs a sentence of a side, and returns what it needed. Blanks are joined to one, and those at
/// the ends are removed, which counts as no repair.
pub fn repair(sentence: &str, side: &SideProfile) -> (String, Repairs) {
    let decoded = mojibake::decoded(sentence, side);
    let plain = markup::plain(&decoded);
    let repairs = Repairs {
        mojibake: matches!(decoded, Cow::Owned(_)),
        html: matches!(plain, Cow::Owned(_)),
        unicode: false,
    };
    let visible: String = plain
        .chars()
        .filter(|character| !is_junk(*character))
        .collect();
    let composed = match is_nfc_quick(visible.chars()) {
        IsNormalized::Yes => visible,
        IsNormalized::No | IsNormalized::Maybe => visible.nfc().collect(),
    };
    let repaired = joined(&composed);
    let unicode = repaired != joined(&plain);
    (repaired, Repairs { unicode, ..repairs })
}

/// Returns whether a character is to be removed: one that is invisible, and that no script needs.
/// The joiners U+200C and U+200D stay, which Persian and Indic scripts need.
fn is_junk(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{ad}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{feff}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' => true,
        _ => character.is_control(),
    }
}

/// Joins the words of a text by one blank each.
fn joined(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> (String, Vec<&'static str>) {
        let side = SideProfile::learn(["Größe über Café", "naïve façade"]);
        let (text, repairs) = repair(text, &side);
        (text, repairs.names().collect())
    }

    #[test]
    fn a_text_that_is_well_stays_as_it_is() {
        for text in [
            "Der Bär sagt: „Ü!“",
            "a < b and 3 > 2 <3",
            "AT&T; R&D",
            "Brontë…”",
            "می\u{200c}خواهم",
        ] {
            assert_eq!(repaired(text), (text.to_owned(), vec![]), "{text}");
        }
        assert_eq!(repaired("  a \u{a0} b\u{3000}").0, "a b");
    }

    #[test]
    fn what_can_be_read_is_repaired() {
        for (text, expected, names) in [
            ("GrÃ¶ÃŸe", "Größe", vec!["mojibake"]),
            ("GrÃƒÂ¶ÃƒÅ¸e Ã¼ber", "Größe über", vec!["mojibake"]),
            ("itâ€™s", "it’s", vec!["mojibake"]),
            ("<p>Hallo <b>du</b><br/></p>", "Hallo du", vec!["html"]),
            (
                "Tom &amp;amp; Ann &#39;x&#39;",
                "Tom & Ann 'x'",
                vec!["html"],
            ),
            ("猫<b>が</b>好き", "猫が好き", vec!["html"]),
            (
                "Stra\u{ad}ße\u{feff} Cafe\u{301}",
                "Straße Café",
                vec!["unicode"],
            ),
        ] {
            assert_eq!(repaired(text), (expected.to_owned(), names), "{text}");
        }
    }

    #[test]
    fn signs_that_stand_for_letters_are_usual_where_the_letters_are() {
        let side = SideProfile::learn(["私は会った人すべてに話した。", "ラジオを下げて"]);
        for text in ["人々のニュース", "ラジオのボリューム"] {
            let read_wrong: String = text.bytes().map(char::from).collect();
            let (repaired, repairs) = repair(&read_wrong, &side);
            assert_eq!(repaired, text);
            assert!(repairs.mojibake);
        }
    }
}
