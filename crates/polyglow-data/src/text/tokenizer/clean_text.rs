//! Cleaning of text before anything else: white space of every kind becomes single plain spaces,
//! and characters that cannot be seen are removed.
//!
//! SentencePiece's rule `nmt_nfkc` (Kudo and Richardson, 2018) does the same to white space and
//! control characters, and also NFKC. Unlike it, this removes characters without width instead of
//! turning them into spaces, so that a word stays one word. The steps are a part of
//! `tokenizer.json`, where Python's `tokenizers` applies them, too; so a run keeps the steps that
//! it was trained with, and an imported tokenizer keeps its own.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};

type Ranges = &'static [RangeInclusive<char>];

/// White space as Unicode defines it; the separators U+001C to U+001F; NUL, which replaces a space
/// that was lost; and U+FFFD, which SentencePiece replaces as well.
const SPACES: Ranges = &[
    '\0'..='\0',
    '\t'..='\r',
    '\u{1c}'..='\u{20}',
    '\u{85}'..='\u{85}',
    '\u{a0}'..='\u{a0}',
    '\u{1680}'..='\u{1680}',
    '\u{2000}'..='\u{200a}',
    '\u{2028}'..='\u{2029}',
    '\u{202f}'..='\u{202f}',
    '\u{205f}'..='\u{205f}',
    '\u{3000}'..='\u{3000}',
    '\u{fffd}'..='\u{fffd}',
];

/// Control characters, soft hyphens, characters without width, and Unicode's direction, byte-order
/// and annotation marks.
const INVISIBLE: Ranges = &[
    '\u{1}'..='\u{8}',
    '\u{e}'..='\u{1b}',
    '\u{7f}'..='\u{84}',
    '\u{86}'..='\u{9f}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{200b}'..='\u{200b}',
    '\u{200e}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
];

/// The zero-width joiner and non-joiner.
const JOINERS: Ranges = &['\u{200c}'..='\u{200d}'];

/// Scripts whose letters take another shape next to a joiner: Arabic to Samaritan, those of India,
/// Tibet, Myanmar and Cambodia, Mongolian, and the historic ones of both families.
const JOINING_SCRIPTS: Ranges = &[
    '\u{600}'..='\u{dff}',
    '\u{f00}'..='\u{109f}',
    '\u{1700}'..='\u{1cff}',
    '\u{a800}'..='\u{a95f}',
    '\u{a980}'..='\u{aaff}',
    '\u{abc0}'..='\u{abff}',
    '\u{fb50}'..='\u{fdff}',
    '\u{fe70}'..='\u{fefc}',
    '\u{10a00}'..='\u{11fff}',
    '\u{1e900}'..='\u{1e95f}',
];

/// Arrows, symbols and pictures, which a joiner may connect to one picture, and which come in two
/// presentations.
const PICTURES: Ranges = &[
    '\u{a9}'..='\u{a9}',
    '\u{ae}'..='\u{ae}',
    '\u{203c}'..='\u{203c}',
    '\u{2049}'..='\u{2049}',
    '\u{2100}'..='\u{23ff}',
    '\u{2460}'..='\u{27bf}',
    '\u{2900}'..='\u{2bff}',
    '\u{fe0f}'..='\u{fe0f}',
    '\u{1f000}'..='\u{1faff}',
];

/// Variation selectors, which choose a presentation of the character before them.
const SELECTORS: Ranges = &['\u{fe00}'..='\u{fe0f}', '\u{e0100}'..='\u{e01ef}'];

/// Ideographs and their punctuation, which have variants.
const IDEOGRAPHS: Ranges = &[
    '\u{3000}'..='\u{303f}',
    '\u{3400}'..='\u{9fff}',
    '\u{f900}'..='\u{faff}',
    '\u{20000}'..='\u{3ffff}',
];

/// The combining frame of keys, such as `1️⃣`, whose digit has a variation selector.
const KEY_FRAME: char = '\u{20e3}';

/// Letters that cannot be seen, which spell the region of a flag.
const TAGS: Ranges = &['\u{e0000}'..='\u{e007f}'];
/// The flag that they follow.
const FLAG: Ranges = &['\u{1f3f4}'..='\u{1f3f4}'];

/// Whether cleaning makes a plain space of this character; a plain space is one, too.
pub fn is_cleaned_to_space(character: char) -> bool {
    contains(SPACES, character)
}

/// Whether cleaning removes this character in any context: it cannot be seen, and no script needs
/// it.
pub fn is_invisible(character: char) -> bool {
    contains(INVISIBLE, character)
}

/// All characters that cleaning may change, apart from the plain space, in their order.
static LOOKED_AT: LazyLock<Vec<RangeInclusive<char>>> = LazyLock::new(|| {
    let sets = [SPACES, INVISIBLE, JOINERS, SELECTORS, TAGS];
    let mut ranges: Vec<_> = sets.into_iter().flatten().cloned().collect();
    ranges.sort_by_key(|range| *range.start());
    ranges
});

/// Whether cleaning leaves this text as it is, found without regular expressions. It may say no of
/// a text with a joiner, a variation selector or a tag, which cleaning keeps in some contexts.
pub(super) fn is_clean(text: &str) -> bool {
    // A space at the start is removed, as one after another is.
    let mut after_space = true;
    for character in text.chars() {
        let is_space = character == ' ';
        if is_space && after_space || !is_space && is_looked_at(character) {
            return false;
        }
        after_space = is_space;
    }
    text.is_empty() || !after_space
}

fn is_looked_at(character: char) -> bool {
    if ('!'..='~').contains(&character) {
        return false;
    }
    let after = LOOKED_AT.partition_point(|range| *range.start() <= character);
    after > 0 && LOOKED_AT[after - 1].contains(&character)
}

fn contains(ranges: Ranges, character: char) -> bool {
    ranges.iter().any(|range| range.contains(&character))
}

/// The normalization steps of a `tokenizer.json` that clean text, in their order.
pub(super) fn steps() -> [Json; 3] {
    [
        json!({"type": "Replace", "pattern": {"Regex": removed()}, "content": ""}),
        json!({"type": "Replace", "pattern": {"Regex": format!("{}+", class(&[SPACES]))}, "content": " "}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
    ]
}

/// The characters that cleaning replaces in any context, each with its replacement, for a format
/// that has no context: joiners and variation selectors stay.
pub(super) fn without_context() -> impl Iterator<Item = (char, &'static str)> {
    let spaces = SPACES.iter().cloned().flatten();
    let other_spaces = spaces.filter(|&space| space != ' ');
    let invisible = INVISIBLE.iter().cloned().flatten();
    other_spaces
        .map(|space| (space, " "))
        .chain(invisible.map(|character| (character, "")))
}

/// The regular expression of all that is removed.
fn removed() -> String {
    let joined = class(&[JOINING_SCRIPTS, PICTURES]);
    let with_variants = class(&[PICTURES, IDEOGRAPHS, JOINING_SCRIPTS]);
    [
        format!("{}+", class(&[INVISIBLE])),
        format!("(?<!{joined}){}+(?!{joined})", class(&[JOINERS])),
        format!(
            "(?<!{with_variants}){}+(?!{KEY_FRAME})",
            class(&[SELECTORS])
        ),
        format!("(?<!{}){}+", class(&[FLAG, TAGS]), class(&[TAGS])),
    ]
    .join("|")
}

/// A character class of a regular expression. The characters stand for themselves, because engines
/// spell escapes in different ways; none of them has a meaning within a class.
fn class(sets: &[Ranges]) -> String {
    let mut class = String::from("[");
    for range in sets.iter().copied().flatten() {
        class.push(*range.start());
        class.push('-');
        class.push(*range.end());
    }
    class.push(']');
    class
}
