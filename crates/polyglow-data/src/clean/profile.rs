//! The usual scripts and blanks of one side of a corpus, learned from the text itself: rules draw
//! their limits from it, and not from a table of languages.

use std::collections::BTreeSet;

use crate::clean::findings::byte_1252;
use crate::clean::language::Script;
use crate::clean::repair::encoding::decoded;
use crate::raw_bytes::{raw_byte, raw_bytes};
use crate::text::encoding::guess::is_windows_1252;

/// A script is one of a side's own if at least this share of its letters is of it.
const OWN_SHARE: f64 = 0.001;

/// Bytes of lines in another encoding than UTF-8 by which that is guessed.
const GUESSED_BYTES: usize = 1 << 16;

/// The share of lines up to which another encoding is damage, and does not say that the text is in it.
const RARE: f64 = 0.01;

/// If there are more than this many lines in another encoding for each one in UTF-8, UTF-8 is rare.
const RARE_UTF8: u64 = 20;

/// The least share of lines in another encoding, and their least number, from which all of a text may be in
/// it: fewer may be damaged.
const OTHER_SHARE: f64 = 0.1;
const MANY_OTHERS: u64 = 20;

/// The share of lines, one in this many, that may be unreadable in a text in Windows-1252.
const UNREADABLE: usize = 5;

/// Lines with characters beyond ASCII that are enough to know which of these a side has.
const ENOUGH_LINES: u64 = 30;

/// The usual text of a side.
#[derive(Clone, Debug, Default)]
pub struct SideProfile {
    /// The scripts that the side is written in.
    scripts: Vec<Script>,
    /// The median share of blanks among the characters of a sentence.
    blank_share: f64,
    /// The letters and signs beyond ASCII that Windows-1252 has, in lower case, of lines in UTF-8; `None`
    /// if these are too few to say which the side has.
    characters: Option<BTreeSet<char>>,
    /// Whether lines that are no UTF-8 look like Windows-1252.
    has_windows_1252: bool,
    /// Whether more lines are in another encoding than in UTF-8, of those that are not ASCII alone, and these
    /// are no rare damage.
    is_mostly_not_utf8: bool,
}

impl SideProfile {
    /// Learns from the sentences of a side, of which some thousands are enough. Bytes that are no UTF-8 may
    /// stand in them ([`raw_bytes`](crate::raw_bytes)).
    pub fn learn<'t>(sentences: impl IntoIterator<Item = &'t str>) -> Self {
        let mut letters = [0_u64; Script::COUNT];
        let mut shares = Vec::new();
        let mut windows_1252 = BTreeSet::new();
        let mut num_utf8 = 0_u64;
        let mut num_other = 0_u64;
        let mut other_lines = Vec::new();
        let mut other_sentences = Vec::new();
        for sentence in sentences {
            let mut num_blanks = 0_u32;
            let mut num_characters = 0_u32;
            if let Some(bytes) = raw_bytes(sentence) {
                num_other += 1;
                if other_lines.len() < GUESSED_BYTES {
                    other_lines.extend(bytes);
                    other_lines.push(b'\n');
                    other_sentences.push(sentence);
                }
            } else if !sentence.is_ascii() && !sentence.contains(|next| raw_byte(next).is_some()) {
                num_utf8 += 1;
                let is_windows_1252 = |next: &char| !next.is_ascii() && byte_1252(*next).is_some();
                let characters = sentence.chars().filter(is_windows_1252);
                windows_1252.extend(characters.flat_map(char::to_lowercase));
            }
            for character in sentence.chars() {
                num_characters += 1;
                num_blanks += u32::from(character == ' ');
                if let Some(script) = Script::of(character) {
                    letters[script as usize] += 1;
                }
            }
            if num_characters > 0 {
                shares.push(f64::from(num_blanks) / f64::from(num_characters));
            }
        }
        shares.sort_by(f64::total_cmp);
        let all: u64 = letters.iter().sum();
        let is_own = |script: &Script| {
            letters[*script as usize] as f64 >= OWN_SHARE * all as f64
                && letters[*script as usize] > 0
        };
        let mut profile = Self {
            scripts: Script::ALL.into_iter().filter(is_own).collect(),
            blank_share: shares.get(shares.len() / 2).copied().unwrap_or(0.0),
            characters: (num_utf8 >= ENOUGH_LINES).then_some(windows_1252),
            has_windows_1252: num_other > 0 && is_windows_1252(&other_lines),
            is_mostly_not_utf8: num_other > num_utf8
                && num_other as f64 > RARE * shares.len() as f64,
        };
        // Where hardly any line is in UTF-8 and many are not, these are no damaged ones: if many of
        // them cannot be read, they are in an encoding that looks like Windows-1252, such as that of
        // old Macs.
        let are_many =
            num_other >= MANY_OTHERS && num_other as f64 >= OTHER_SHARE * shares.len() as f64;
        if are_many && num_utf8 * RARE_UTF8 < num_other {
            let is_unreadable = |sentence: &&&str| !decoded(sentence, &profile).1;
            let num_unreadable = other_sentences.iter().filter(is_unreadable).count();
            profile.has_windows_1252 &= num_unreadable <= other_sentences.len() / UNREADABLE;
        }
        profile
    }

    /// Returns whether the side is written in a script.
    pub fn has(&self, script: Script) -> bool {
        self.scripts.contains(&script)
    }

    /// Returns whether a character that a byte stands for in Windows-1252 may stand on the side: if it does
    /// in lines in UTF-8, or if these are few and the others look like Windows-1252.
    pub fn may_have(&self, character: char) -> bool {
        if let Some(known) = &self.characters {
            return character.to_lowercase().any(|lower| known.contains(&lower));
        }
        let script = Script::of(character);
        self.has_windows_1252 && script.is_none_or(|script| self.has(script))
    }

    /// Returns whether the side is in an encoding that is neither UTF-8 nor Windows-1252.
    pub fn is_in_other_encoding(&self) -> bool {
        self.is_mostly_not_utf8 && !self.has_windows_1252
    }

    /// Returns whether words have blanks between them.
    pub fn is_spaced(&self) -> bool {
        self.blank_share > 0.08
    }

    /// Returns whether sentences hardly have any blank.
    pub fn is_unspaced(&self) -> bool {
        self.blank_share < 0.02
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_bytes::keep;

    #[test]
    fn a_side_is_in_another_encoding_if_that_is_no_rare_damage() {
        let polish =
            keep(b"za\xbf\xf3\xb3\xe6 g\xea\xb6l\xb1 ja\xbc\xf1, \xb6wi\xea\xb3a ksi\xb1\xbfka");
        let german = keep(b"Gr\xf6\xdfe \xfcber alles");
        let side = |line: &str, num_ascii: usize| {
            SideProfile::learn(std::iter::repeat_n("a line", num_ascii).chain([line]))
        };
        assert!(
            side(&polish, 9).is_in_other_encoding() && !side(&polish, 900).is_in_other_encoding()
        );
        assert!(!side(&polish, 900).may_have('ö'));
        assert!(!side(&german, 9).is_in_other_encoding() && side(&german, 9).may_have('Ö'));
        assert!(!side("Größe", 9).may_have('ö'));
        // `für größere Äpfel, wenn ich weiß, läuft, Schönes Fräulein` on an old Mac.
        let mac = [
            keep(b"f\x9fr gr\x9a\xa7ere \x80pfel"),
            keep(b"wenn ich wei\xa7"),
            keep(b"l\x8auft"),
            keep(b"Sch\x9anes Fr\x8aulein"),
        ];
        let lines = || mac.iter().map(|line| &**line);
        let all = std::iter::repeat_with(lines).take(5).flatten();
        assert!(SideProfile::learn(all).is_in_other_encoding());
        // Some damaged lines in a text that is ASCII else.
        let ascii = std::iter::repeat_n("a line", 97);
        assert!(!SideProfile::learn(ascii.chain(lines())).is_in_other_encoding());
    }

    #[test]
    fn a_side_has_the_letters_of_its_lines_in_utf8() {
        let hungarian = std::iter::repeat_n("árvíztűrő tükörfúrógép", 30);
        // `ő` is `õ` in Windows-1252.
        let other = keep(b"\xe1rv\xedzt\xfbr\xf5");
        let side = SideProfile::learn(hungarian.chain([&*other]));
        assert!(side.may_have('á') && side.may_have('Í') && side.may_have('ö'));
        assert!(!side.may_have('õ') && !side.may_have('û'));
    }

    #[test]
    fn a_side_has_the_scripts_and_blanks_of_its_text() {
        let japanese = SideProfile::learn(["これはペンです。", "私はTomです。"]);
        assert!(japanese.has(Script::Kana) && japanese.has(Script::Latin));
        assert!(japanese.is_unspaced() && !japanese.is_spaced());
        let english = SideProfile::learn(["this is a pen .", "I am Tom ."]);
        assert!(english.is_spaced() && !english.has(Script::Hangul));
    }
}
