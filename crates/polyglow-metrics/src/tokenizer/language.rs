//! Languages by what separates their words, which decides how BLEU can split them.

use std::ops::Add;

/// A group of languages that are written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Chinese,
    Japanese,
    Korean,
    /// Thai, Lao, Khmer, Burmese and Tibetan, which put spaces between phrases only.
    OtherWithoutSpaces,
    WithSpaces,
}

/// The codes, of two and of three letters, of languages without spaces between words, and of Korean,
/// whose spaces separate phrases of several morphemes.
const CODES: [(Language, &[&str]); 4] = [
    (
        Language::Chinese,
        &[
            "zh", "zho", "chi", "cmn", "yue", "wuu", "nan", "hak", "gan", "hsn", "lzh",
        ],
    ),
    (Language::Japanese, &["ja", "jpn"]),
    (Language::Korean, &["ko", "kor"]),
    (
        Language::OtherWithoutSpaces,
        &[
            "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz",
            "dzo",
        ],
    ),
];

impl Language {
    /// The language of a code in any spelling: `zh`, `ZH-cn`, `zho_Hans`; `None` if the code tells
    /// nothing about spaces.
    pub(super) fn from_code(code: &str) -> Option<Self> {
        let code = code.to_ascii_lowercase();
        let mut parts = code.split(['-', '_', '.']);
        let language = parts.next()?;
        // Romanized text has spaces, whatever the language is.
        if parts.any(|part| part == "latn") {
            return None;
        }
        let mut entries = CODES.into_iter();
        let (language, _) = entries.find(|(_, codes)| codes.contains(&language))?;
        Some(language)
    }
}

/// The numbers of letters of a text, by script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Letters {
    han: usize,
    kana: usize,
    hangul: usize,
    /// Letters of Thai, Lao, Tibetan, Burmese and Khmer.
    phrases: usize,
    all: usize,
}

impl Letters {
    /// Counts the letters of some lines.
    pub(super) fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut letters = Self::default();
        let characters = lines.into_iter().flat_map(str::chars);
        for letter in characters.filter(|character| character.is_alphabetic()) {
            letters.all += 1;
            match letter {
                '\u{3005}'
                | '\u{3007}'
                | '\u{3400}'..='\u{4dbf}'
                | '\u{4e00}'..='\u{9fff}'
                | '\u{f900}'..='\u{faff}'
                | '\u{20000}'..='\u{323af}' => letters.han += 1,
                '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' => {
                    letters.kana += 1;
                }
                '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7ff}' => {
                    letters.hangul += 1;
                }
                '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => letters.phrases += 1,
                _ => {}
            }
        }
        letters
    }

    /// The number of letters of scripts without spaces between words.
    pub(super) fn without_spaces(self) -> usize {
        self.han + self.kana + self.phrases
    }

    /// Whether a text of these letters is written without spaces. An ideograph stands for about as
    /// much as three letters, so a quarter decides.
    pub(super) fn are_without_spaces(self) -> bool {
        self.without_spaces() > 0 && 4 * self.without_spaces() >= self.all
    }

    /// The group of languages that is written with such letters.
    pub(super) fn language(self) -> Language {
        let Self {
            han,
            kana,
            hangul,
            phrases,
            all,
        } = self;
        if hangul > 0 && 4 * hangul >= all && hangul > self.without_spaces() {
            Language::Korean
        } else if !self.are_without_spaces() {
            Language::WithSpaces
        } else if phrases > han + kana {
            Language::OtherWithoutSpaces
        } else if 10 * kana >= han + kana {
            // About half of the letters of Japanese text are kana, and hardly any of Chinese text.
            Language::Japanese
        } else {
            Language::Chinese
        }
    }
}

impl Add for Letters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            han: self.han + other.han,
            kana: self.kana + other.kana,
            hangul: self.hangul + other.hangul,
            phrases: self.phrases + other.phrases,
            all: self.all + other.all,
        }
    }
}
