//! Rules that look at one pair: each has a test and a reason.
//!
//! They are timid: what they refuse is nearly always no translation, and what they let through may
//! still be none. Where a limit depends on how a language is written, it comes from the side's
//! [`SideProfile`].

mod numbers;
mod repeats;
mod signs;

use std::collections::BTreeMap;

use crate::clean::profile::SideProfile;
use crate::clean::reasons::ReasonSet;
use crate::clean::words::{normal_form, words};
use crate::example::Reason;
use crate::pair::Pair;
pub use numbers::numbers_without_partner;
use repeats::Repeats;
use signs::{count_letters, has_lost_characters, has_question_mark_within, has_url, is_spaced_out};

/// Words of a pair whose sides are equal before it counts as a copy: names and short exclamations
/// are the same in many languages.
const COPIED_WORDS: usize = 3;
/// Words of both sides before they are compared by the words that they share.
const SHARED_WORDS: usize = 4;
/// The share of letters and digits among the characters of a side that is no list of signs.
const LETTER_SHARE: f64 = 0.5;

/// A rule: the reason for which it removes a pair, and its test.
pub struct Rule {
    /// The reason.
    pub reason: Reason,
    test: fn(&Sides) -> bool,
}

/// The rules, in the order in which they are looked at: the first whose test is true is the reason that
/// counts.
pub const RULES: [Rule; 9] = [
    Rule {
        reason: reason("empty", "with an empty side"),
        test: |sides| sides.all().iter().any(|side| side.text.is_empty()),
    },
    Rule {
        reason: reason("lost_characters", "with characters that were lost"),
        test: |sides| {
            let [src, tgt] = sides.all().map(|side| side.text);
            has_lost_characters(src, tgt)
                || has_lost_characters(tgt, src)
                || has_question_mark_within(src, tgt)
                || has_question_mark_within(tgt, src)
        },
    },
    Rule {
        reason: reason(
            "no_letters",
            "with letters on one side alone, or no letter or digit",
        ),
        test: has_no_letters,
    },
    Rule {
        reason: reason("copy", "whose target is its source"),
        test: is_copy,
    },
    Rule {
        reason: reason(
            "near_copy",
            "whose target shares most words with its source",
        ),
        test: is_near_copy,
    },
    Rule {
        reason: reason("few_letters", "with more signs than letters"),
        test: has_few_letters,
    },
    Rule {
        reason: reason("url", "with an address on one side alone"),
        test: |sides| has_url(sides.src.text) != has_url(sides.tgt.text),
    },
    Rule {
        reason: reason("spaced", "with blanks between all characters"),
        test: |sides| {
            sides
                .all()
                .iter()
                .any(|side| is_spaced_out(side.text, side.profile))
        },
    },
    Rule {
        reason: NUMBERS,
        test: |sides| {
            let [src, tgt] = numbers_without_partner(sides.src.text, sides.tgt.text);
            // A number that one side lacks may be written in words there.
            !src.is_empty() && !tgt.is_empty()
        },
    },
];

/// The reason of a pair whose sides both have a number that the other side lacks.
pub const NUMBERS: Reason = reason("numbers", "with other numbers on each side");

/// The reason of a pair that repeats words on one side alone, the last of all rules.
pub const REPEAT: Reason = reason("repeat", "that repeat words on one side alone");

const fn reason(key: &'static str, title: &'static str) -> Reason {
    Reason { key, title }
}

/// Returns why a pair that was repaired is to be removed, by every rule; nothing if none refuses it.
pub fn refuse(pair: &Pair, profiles: [&SideProfile; 2]) -> ReasonSet {
    let sides = Sides {
        src: Side::new(&pair.src, profiles[0]),
        tgt: Side::new(&pair.tgt, profiles[1]),
    };
    let refusing = RULES.iter().filter(|rule| (rule.test)(&sides));
    let mut reasons: ReasonSet = refusing.map(|rule| rule.reason).collect();
    let src = Repeats::count(&sides.src.words);
    let tgt = Repeats::count(&sides.tgt.words);
    if src.is_odd_beside(&tgt) || tgt.is_odd_beside(&src) {
        reasons.insert(REPEAT);
    }
    reasons
}

/// Both sides of a pair, with what several rules need.
struct Sides<'a> {
    src: Side<'a>,
    tgt: Side<'a>,
}

struct Side<'a> {
    text: &'a str,
    profile: &'a SideProfile,
    words: Vec<String>,
}

impl Sides<'_> {
    fn all(&self) -> [&Side<'_>; 2] {
        [&self.src, &self.tgt]
    }
}

impl<'a> Side<'a> {
    fn new(text: &'a str, profile: &'a SideProfile) -> Self {
        Self {
            text,
            profile,
            words: words(text),
        }
    }

    fn has_letter(&self) -> bool {
        self.text.contains(char::is_alphabetic)
    }
}

fn has_no_letters(sides: &Sides) -> bool {
    let says_nothing = |side: &&Side| !side.text.contains(char::is_alphanumeric);
    sides.all().iter().any(says_nothing) || sides.src.has_letter() != sides.tgt.has_letter()
}

fn is_copy(sides: &Sides) -> bool {
    sides.src.words.len() >= COPIED_WORDS
        && normal_form(sides.src.text) == normal_form(sides.tgt.text)
}

fn is_near_copy(sides: &Sides) -> bool {
    let src = &sides.src.words;
    let tgt = &sides.tgt.words;
    if src.len().min(tgt.len()) < SHARED_WORDS {
        return false;
    }
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for word in src {
        *left.entry(word).or_default() += 1;
    }
    let mut num_shared = 0_usize;
    for word in tgt {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            num_shared += 1;
        }
    }
    num_shared as f64 >= 0.8 * src.len().max(tgt.len()) as f64
}

fn has_few_letters(sides: &Sides) -> bool {
    sides.all().iter().any(|side| {
        let (letters, characters) = count_letters(side.text);
        (letters as f64) < LETTER_SHARE * characters.max(1) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(src: &str, tgt: &str) -> Option<&'static str> {
        let english = SideProfile::learn(["this is a pen .", "I am Tom , and you ?"]);
        let japanese = SideProfile::learn(["これはペンです。", "私はトムです。"]);
        let is_japanese = tgt.contains(crate::script::is_unspaced);
        let profile = if is_japanese { &japanese } else { &english };
        let pair = Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        };
        let reasons = refuse(&pair, [&english, profile]);
        reasons.first().map(|reason| reason.key)
    }

    #[test]
    fn translations_stay() {
        for (src, tgt) in [
            ("Taxi!", "Taxi!"),
            ("OK", "OK"),
            ("Tom, Mary!", "Tom, Mary!"),
            ("In 1990 I was 5.", "1990 war ich fünf."),
            ("Well now...", "Что?.. Nun"),
            (
                "Juan wondered whether you come.",
                "¿Vienes?, pregunto Juan.",
            ),
            ("Wait...", "What?..."),
            ("In '90 at 5 pm", "1990 um 17 Uhr"),
            ("It costs 10,000 yen.", "それは１万円です。"),
            (
                "He said it again and again and again.",
                "Er sagte es wieder und wieder und wieder.",
            ),
            ("Very, very, very good.", "Sehr, sehr, sehr gut."),
            ("See www.a.de now", "Siehe www.a.de jetzt"),
            (
                "See http://a.de/b?c=1 for more.",
                "Siehe http://a.de/b?c=1 für mehr.",
            ),
            ("Open index.php?page=3 now", "Öffne jetzt index.php?page=3"),
            ("What?No way!", "Was?Auf keinen Fall!"),
            ("What? Yes.", "Was? Ja."),
        ] {
            assert_eq!(key(src, tgt), None, "{src} | {tgt}");
        }
    }

    #[test]
    fn each_rule_refuses_what_it_is_for() {
        for (src, tgt, expected) in [
            ("", "Ja.", "empty"),
            ("...", "Ja.", "no_letters"),
            ("1.", "Ja.", "no_letters"),
            ("I like the sun.", "i like the SUN", "copy"),
            (
                "I like the warm sun now",
                "I like the warm sun",
                "near_copy",
            ),
            ("well 😀😀😀😀😀😀", "gut 😀😀😀😀😀😀", "few_letters"),
            ("Look at it", "Sieh http://a.de/b an", "url"),
            ("The bear", "Der B\u{fffd}r", "lost_characters"),
            (
                "See http://a.de/x now",
                "Siehe http://a.de/\u{fffd}x jetzt",
                "lost_characters",
            ),
            ("The bear", "Der B?r schläft", "lost_characters"),
            ("What?No way!", "Das ist ?ble Nachrede?", "lost_characters"),
            (
                "A man at a table",
                "Un homme ? une table",
                "lost_characters",
            ),
            ("He sits in a café.", "Er sitzt im Caf?.", "lost_characters"),
            (
                "The pushed cart stops",
                "Le chariot pouss? s'arr?te",
                "lost_characters",
            ),
            ("a dog sleeps here", "e i n H u n d s c h l ä f t", "spaced"),
            ("A pen", "こ れ は ペ ン で す 。", "spaced"),
            ("I have 3 dogs.", "Ich habe 4 Hunde.", "numbers"),
            (
                "He sings well today",
                "Er singt gut gut gut gut gut gut",
                "repeat",
            ),
            (
                "The boy will wait for you until you come back.",
                "der Junge wird auf dich warten bis du nun zurückkommst der Junge wird auf dich warten bis du nun \
                 zurückkommst der Junge wird auf dich warten bis du nun zurückkommst",
                "repeat",
            ),
            (
                "I will clean up my work of yesterday.",
                "昨日の仕事を片づけけけけるつもりです。",
                "repeat",
            ),
        ] {
            assert_eq!(key(src, tgt), Some(expected), "{src} | {tgt}");
        }
    }
}
