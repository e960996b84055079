//! Languages by the one thing that matters here: what stands between their words.

use std::ops::Add;

/// How a language is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Chinese,
    Japanese,
    Korean,
    /// As Thai, Lao, Khmer, Burmese and Tibetan, which put spaces between phrases only.
    OtherWithoutSpaces,
    WithSpaces,
}

/// The codes, of two and of three letters, of languages for which words are no matter of spaces.
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
    /// The language of a code that says what stands between words, in any spelling: `zh`, `ZH-cn`,
    /// `zho_Hans`.
    pub(super) fn of_code(code: &str) -> Option<Self> {
        let code = code.to_ascii_lowercase();
        let mut parts = code.split(['-', '_', '.']);
        let language = parts.next()?;
        let is_romanized = parts.any(|part| part == "latn");
        let found = CODES
            .iter()
            .find(|(_, codes)| codes.contains(&language) && !is_romanized);
        found.map(|(language, _)| *language)
    }
}

/// Letters of a text, counted by script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Letters {
    han: usize,
    kana: usize,
    hangul: usize,
    /// Of Thai, Lao, Tibetan, Burmese and Khmer.
    phrases: usize,
    all: usize,
}

impl Letters {
    pub(super) fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut letters = Self::default();
        for letter in lines
            .into_iter()
            .flat_map(str::chars)
            .filter(|letter| letter.is_alphabetic())
        {
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

    /// Letters of scripts without spaces between words.
    pub(super) fn without_spaces(self) -> usize {
        self.han + self.kana + self.phrases
    }

    /// Whether a text of these letters is written without spaces. An ideograph stands for about as
    /// much as three letters, so a quarter decides.
    pub(super) fn are_without_spaces(self) -> bool {
        self.without_spaces() > 0 && 4 * self.without_spaces() >= self.all
    }

    /// The kind of language that is written so.
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
