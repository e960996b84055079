//! Repairs of text that can still be read: a wrong encoding, remains of HTML, invisible characters.
//!
//! The order matters: bytes of another encoding become characters first; and no-break spaces, soft hyphens
//! and control characters are bytes of a wrong encoding, which must be read before they are removed.

pub(super) mod encoding;
mod markup;
mod mojibake;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::clean::language::Script;
use crate::clean::profile::SideProfile;

/// A kind of repair, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// A line in Windows-1252 in a file in UTF-8.
    Encoding,
    /// UTF-8 that had been read as Latin-1 or Windows-1252, up to three times.
    Mojibake,
    /// Tags and entities of HTML.
    Html,
    /// Control characters, invisible characters, letters in pieces (NFD).
    Unicode,
}

impl Repair {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Encoding, Self::Mojibake, Self::Html, Self::Unicode];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::Mojibake => "mojibake",
            Self::Html => "html",
            Self::Unicode => "unicode",
        }
    }
}

/// The repairs that a sentence needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// A bit for each of [`Repair::ALL`], the lowest for the first.
    bits: u8,
}

impl Repairs {
    /// Returns whether there was any.
    pub fn any(self) -> bool {
        self.bits != 0
    }

    /// Returns whether there was one of a kind.
    pub fn has(self, repair: Repair) -> bool {
        self.bits >> repair as u8 & 1 == 1
    }

    /// Returns the repairs of two sides together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
        }
    }

    /// Returns the names of the repairs that were made.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let made = Repair::ALL
            .into_iter()
            .filter(move |repair| self.has(*repair));
        made.map(Repair::name)
    }

    /// Adds a repair if it was made.
    fn note(&mut self, repair: Repair, is_made: bool) {
        self.bits |= u8::from(is_made) << repair as u8;
    }
}

/// Repairs a sentence of a side, and returns what it needed. Blanks are joined to one, and those at
/// the ends are removed, which counts as no repair.
pub fn repair(sentence: &str, side: &SideProfile) -> (String, Repairs) {
    let (readable, encoding) = encoding::decoded(sentence, side);
    let decoded = mojibake::decoded(&readable, side);
    let plain = markup::plain(&decoded);
    let mut repairs = Repairs::default();
    repairs.note(Repair::Encoding, encoding);
    repairs.note(Repair::Mojibake, matches!(decoded, Cow::Owned(_)));
    repairs.note(Repair::Html, matches!(plain, Cow::Owned(_)));
    let visible: String = plain
        .chars()
        .filter(|character| !is_junk(*character))
        .collect();
    let composed = match is_nfc_quick(visible.chars()) {
        IsNormalized::Yes => visible,
        IsNormalized::No | IsNormalized::Maybe => visible.nfc().collect(),
    };
    let repaired = joined(&composed);
    repairs.note(Repair::Unicode, repaired != joined(&plain));
    (repaired, repairs)
}

/// Returns a sentence of a side with characters in place of bytes that are no UTF-8, and what that needed;
/// nothing else is repaired.
pub fn readable(sentence: &str, side: &SideProfile) -> (String, Repairs) {
    let (readable, encoding) = encoding::decoded(sentence, side);
    let mut repairs = Repairs::default();
    repairs.note(Repair::Encoding, encoding);
    (readable.into_owned(), repairs)
}

/// Returns whether a character that was decoded may stand on a side: a letter of a script of its own, or a
/// sign. `ë…”` are the bytes of a Hangul syllable, and mean what they say.
fn is_usual(character: char, side: &SideProfile) -> bool {
    match Script::of(character) {
        Some(script) => side.has(script),
        None => !character.is_alphabetic(),
    }
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
    use crate::raw_bytes::keep;

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
                "<a href='x'>Hallo</a> <font color=red>du</font>",
                "Hallo du",
                vec!["html"],
            ),
            ("<td nowrap>Hallo</td>", "Hallo", vec!["html"]),
            ("a<b and c>d", "a<b and c>d", vec![]),
            ("a<b and c=1 or d>e", "a<b and c=1 or d>e", vec![]),
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
    fn a_line_in_another_encoding_is_read_and_a_damaged_one_is_lost() {
        for (bytes, expected, names) in [
            (&b"Gr\xf6\xdfe \x80 3"[..], "Größe € 3", vec!["encoding"]),
            (b"na\xefve <b>x</b>", "naïve x", vec!["encoding", "html"]),
            // Half a character, between whole ones; a byte that Windows-1252 does not have.
            (b"\xc3\xbcber Gr\xc3e", "über Gr\u{fffd}e", vec![]),
            (b"a\x81b", "a\u{fffd}b", vec![]),
            // Characters that lack bytes, and one in two surrogates.
            (b"don\xe2\x80t", "don\u{fffd}\u{fffd}t", vec![]),
            (b"caf\xc3", "caf\u{fffd}", vec![]),
            (b"no \xed\xa0\xbd", "no \u{fffd}\u{fffd}\u{fffd}", vec![]),
            (b"N\xc3O, n\xba 1 \xb5m", "NÃO, nº 1 µm", vec!["encoding"]),
        ] {
            let side = SideProfile::learn(["Größe über Café", &keep(b"Gr\xf6\xdfe \xfcber alles")]);
            let (text, repairs) = repair(&keep(bytes), &side);
            let names: Vec<&str> = names;
            assert_eq!((&*text, repairs.names().collect()), (expected, names));
        }
        // A side that has no such lines, as far as it was looked at.
        let german = SideProfile::learn(["Größe über Café"]);
        assert_eq!(
            repair(&keep(b"Gr\xf6\xdfe"), &german).0,
            "Gr\u{fffd}\u{fffd}e"
        );
    }

    #[test]
    fn signs_beside_letters_must_be_of_the_side() {
        let line = "Žena a muž šli přes m² louky";
        let latin = keep(b"Mu\xbe s \xbeenou");
        let czech = SideProfile::learn([line; 40].into_iter().chain([&*latin]));
        for (bytes, expected) in [
            (&b"Mu\xbe surfuje"[..], "Mu\u{fffd} surfuje"),
            (b"\xaeena jde", "\u{fffd}ena jde"),
            (b"ru\xb9nou", "ru\u{fffd}nou"),
            // A sign that the side has, one that stands alone, and quotation marks.
            (b"5 m\xb2 louky", "5 m² louky"),
            (b"\xa9 2020, 20\xb0", "© 2020, 20°"),
            (b"\x84ano\x93, d\x92Artagnan\xa0\x85", "„ano“, d’Artagnan …"),
        ] {
            assert_eq!(repair(&keep(bytes), &czech).0, expected);
        }
        // CP850, in which bytes of marks are letters.
        let german = SideProfile::learn(["Größe, Mädchen, schön"; 40]);
        for (bytes, expected) in [
            (&b"M\x84dchen"[..], "M\u{fffd}dchen"),
            (b"sch\x94n", "sch\u{fffd}n"),
            (b"\x84ja\x93, M\xe4dchen", "„ja“, Mädchen"),
        ] {
            assert_eq!(repair(&keep(bytes), &german).0, expected);
        }
    }

    #[test]
    fn signs_that_stand_for_letters_are_usual_where_the_letters_are() {
        let side = SideProfile::learn(["私は会った人すべてに話した。", "ラジオを下げて"]);
        for text in ["人々のニュース", "ラジオのボリューム"] {
            let read_wrong: String = text.bytes().map(char::from).collect();
            let (repaired, repairs) = repair(&read_wrong, &side);
            assert_eq!(repaired, text);
            assert!(repairs.has(Repair::Mojibake));
        }
    }
}
