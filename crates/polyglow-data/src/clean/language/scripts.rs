//! Scripts: of characters, and of languages.

use serde::Serialize;

/// A system of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Script {
    /// a, b, c
    Latin,
    /// α, β, γ
    Greek,
    /// а, б, в
    Cyrillic,
    /// Of Armenian.
    Armenian,
    /// Of Hebrew and Yiddish.
    Hebrew,
    /// Of Arabic, Persian, Urdu.
    Arabic,
    /// Of Hindi, Marathi, Nepali.
    Devanagari,
    /// Of Bengali and Assamese.
    Bengali,
    /// Of Punjabi.
    Gurmukhi,
    /// Of Gujarati.
    Gujarati,
    /// Of Tamil.
    Tamil,
    /// Of Telugu.
    Telugu,
    /// Of Kannada.
    Kannada,
    /// Of Malayalam.
    Malayalam,
    /// Of Sinhala.
    Sinhala,
    /// Of Thai.
    Thai,
    /// Of Lao.
    Lao,
    /// Of Burmese.
    Myanmar,
    /// Of Georgian.
    Georgian,
    /// Of Amharic and Tigrinya.
    Ethiopic,
    /// Of Khmer.
    Khmer,
    /// Of Korean.
    Hangul,
    /// Of Japanese, together with Han.
    Kana,
    /// Of Chinese and Japanese.
    Han,
}

impl Script {
    /// Number of scripts.
    pub const COUNT: usize = 24;
    /// All scripts.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Latin,
        Self::Greek,
        Self::Cyrillic,
        Self::Armenian,
        Self::Hebrew,
        Self::Arabic,
        Self::Devanagari,
        Self::Bengali,
        Self::Gurmukhi,
        Self::Gujarati,
        Self::Tamil,
        Self::Telugu,
        Self::Kannada,
        Self::Malayalam,
        Self::Sinhala,
        Self::Thai,
        Self::Lao,
        Self::Myanmar,
        Self::Georgian,
        Self::Ethiopic,
        Self::Khmer,
        Self::Hangul,
        Self::Kana,
        Self::Han,
    ];

    /// Returns the script of a letter; `None` for digits, signs and letters of rarer scripts.
    pub fn of(character: char) -> Option<Self> {
        script(character)
    }
}

/// The letters of scripts beyond ASCII; Unicode has each script in blocks.
const RANGES: [(char, char, Script); 39] = [
    ('\u{c0}', '\u{24f}', Script::Latin),
    ('\u{1e00}', '\u{1eff}', Script::Latin),
    ('\u{ff21}', '\u{ff5a}', Script::Latin),
    ('\u{370}', '\u{3ff}', Script::Greek),
    ('\u{1f00}', '\u{1fff}', Script::Greek),
    ('\u{400}', '\u{52f}', Script::Cyrillic),
    ('\u{531}', '\u{587}', Script::Armenian),
    ('\u{5d0}', '\u{5f2}', Script::Hebrew),
    ('\u{620}', '\u{64a}', Script::Arabic),
    ('\u{66e}', '\u{6d3}', Script::Arabic),
    ('\u{750}', '\u{77f}', Script::Arabic),
    ('\u{fb50}', '\u{fdff}', Script::Arabic),
    ('\u{fe70}', '\u{fefc}', Script::Arabic),
    ('\u{900}', '\u{963}', Script::Devanagari),
    ('\u{980}', '\u{9e3}', Script::Bengali),
    ('\u{a00}', '\u{a5e}', Script::Gurmukhi),
    ('\u{a80}', '\u{ae3}', Script::Gujarati),
    ('\u{b80}', '\u{bd7}', Script::Tamil),
    ('\u{c00}', '\u{c63}', Script::Telugu),
    ('\u{c80}', '\u{ce3}', Script::Kannada),
    ('\u{d00}', '\u{d63}', Script::Malayalam),
    ('\u{d80}', '\u{df3}', Script::Sinhala),
    ('\u{e01}', '\u{e4e}', Script::Thai),
    ('\u{e81}', '\u{edf}', Script::Lao),
    ('\u{1000}', '\u{103f}', Script::Myanmar),
    ('\u{10a0}', '\u{10ff}', Script::Georgian),
    ('\u{1200}', '\u{135a}', Script::Ethiopic),
    ('\u{1780}', '\u{17d3}', Script::Khmer),
    ('\u{1100}', '\u{11ff}', Script::Hangul),
    ('\u{ac00}', '\u{d7a3}', Script::Hangul),
    ('\u{3041}', '\u{3096}', Script::Kana),
    ('\u{30a1}', '\u{30fa}', Script::Kana),
    // ー and ヽ, half-width katakana, and 々, 〆, 〇.
    ('\u{30fc}', '\u{30fe}', Script::Kana),
    ('\u{ff66}', '\u{ff9d}', Script::Kana),
    ('\u{3005}', '\u{3007}', Script::Han),
    ('\u{3400}', '\u{4dbf}', Script::Han),
    ('\u{4e00}', '\u{9fff}', Script::Han),
    ('\u{f900}', '\u{faff}', Script::Han),
    ('\u{20000}', '\u{3134f}', Script::Han),
];

/// Returns the script of a letter; `None` for digits, signs and letters that are not in the list.
pub(super) fn script(character: char) -> Option<Script> {
    if character.is_ascii() {
        return character.is_ascii_alphabetic().then_some(Script::Latin);
    }
    // Signs between the letters of these blocks.
    if matches!(
        character,
        '×' | '÷' | '\u{ff3b}'..='\u{ff40}' | '\u{37e}' | '\u{387}'
    ) {
        return None;
    }
    RANGES
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&character))
        .map(|&(.., script)| script)
}

/// The scripts that languages are written in, by their two-letter codes.
const LANGUAGES: [(&str, &[Script]); 27] = [
    (
        "en de fr es it pt nl sv da no nb nn pl cs sk sl hr fi et hu ro tr vi id ms sw lv lt sq is ga cy eu gl ca mt af eo la \
         lb tl zu xh yo ig ha so mi sm haw br oc fy",
        &[Script::Latin],
    ),
    ("ru uk bg mk be ky tg ce tt ba cv", &[Script::Cyrillic]),
    (
        "sr kk mn uz az tk",
        &[Script::Cyrillic, Script::Latin, Script::Arabic],
    ),
    ("el", &[Script::Greek]),
    ("hy", &[Script::Armenian]),
    ("he iw yi", &[Script::Hebrew]),
    ("ar fa ur ps ckb", &[Script::Arabic]),
    ("hi mr ne sa", &[Script::Devanagari]),
    ("bn as", &[Script::Bengali]),
    ("pa", &[Script::Gurmukhi, Script::Arabic]),
    ("gu", &[Script::Gujarati]),
    ("ta", &[Script::Tamil]),
    ("te", &[Script::Telugu]),
    ("kn", &[Script::Kannada]),
    ("ml", &[Script::Malayalam]),
    ("si", &[Script::Sinhala]),
    ("th", &[Script::Thai]),
    ("lo", &[Script::Lao]),
    ("my", &[Script::Myanmar]),
    ("ka", &[Script::Georgian]),
    ("am ti", &[Script::Ethiopic]),
    ("km", &[Script::Khmer]),
    ("ko", &[Script::Hangul, Script::Han]),
    ("ja", &[Script::Kana, Script::Han]),
    ("zh yue", &[Script::Han]),
    ("ug", &[Script::Arabic]),
    ("ku", &[Script::Latin, Script::Arabic]),
];

/// Returns the scripts of a language; none where it is not in the list.
pub(super) fn language_scripts(code: &str) -> &'static [Script] {
    let entry = LANGUAGES
        .iter()
        .find(|(codes, _)| codes.split_whitespace().any(|known| known == code));
    entry.map_or(&[], |(_, scripts)| scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_scripts_and_signs_have_none() {
        for (letter, expected) in [
            ('q', Script::Latin),
            ('ß', Script::Latin),
            ('ế', Script::Latin),
            ('ж', Script::Cyrillic),
            ('λ', Script::Greek),
            ('ش', Script::Arabic),
            ('の', Script::Kana),
            ('語', Script::Han),
            ('한', Script::Hangul),
            ('ก', Script::Thai),
        ] {
            assert_eq!(script(letter), Some(expected), "{letter}");
        }
        assert!(
            ['1', ' ', '.', '×', '、', '।', '“']
                .into_iter()
                .all(|sign| script(sign).is_none())
        );
    }

    #[test]
    fn ranges_do_not_overlap() {
        let mut ranges = RANGES;
        ranges.sort_by_key(|range| range.0);
        assert!(ranges.windows(2).all(|two| two[0].1 < two[1].0));
        assert_eq!(language_scripts("ja"), [Script::Kana, Script::Han]);
        assert!(language_scripts("xx").is_empty());
        assert!(
            RANGES
                .iter()
                .all(|(.., script)| (*script as usize) < Script::COUNT)
        );
    }
}
