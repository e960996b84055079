//! `auto`: the tokenizer that suits the language, or the script of the text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::language::{Language, Letters};
use super::{Tokenizer, TokenizerName};
use crate::error::MetricError;
use crate::python;

/// The spelling of [`TokenizerChoice::Auto`].
const AUTO: &str = "auto";
/// The most letters of a word in scripts without spaces: hardly any word has more.
const LONG_WORD: usize = 10;

/// A tokenizer by its name, or `auto`, as [`FromStr`] and serde spell it.
///
/// ```
/// use polyglow_metrics::{TokenizerChoice, TokenizerName};
///
/// let auto: TokenizerChoice = "auto".parse()?;
/// assert_eq!(auto.for_language("zh-CN", false), TokenizerChoice::Named(TokenizerName::Chinese));
/// assert_eq!(auto.for_language("ja", true), TokenizerChoice::Named(TokenizerName::Japanese));
/// // The code of a language with spaces leaves it to the text, which is to be trusted more.
/// assert_eq!(auto.for_language("de", false), auto);
/// assert_eq!(auto.for_text(["Der Hund schläft."], false), TokenizerName::V13a);
/// assert_eq!(auto.for_text(["สวัสดีตอนเช้า"], false), TokenizerName::Char);
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerChoice {
    /// The tokenizer that suits the language and the text.
    Auto,
    /// The tokenizer with this name.
    Named(TokenizerName),
}

impl TokenizerChoice {
    /// Decides by the code of the target language, such as `ja`, `zh_CN`, `tha` or `khm_Khmr`, as far
    /// as it tells; else returns the choice as it is. `has_dictionary` says whether there is a MeCab
    /// dictionary for Japanese or Korean.
    #[must_use]
    pub fn for_language(self, code: &str, has_dictionary: bool) -> Self {
        match (self, Language::from_code(code)) {
            (Self::Auto, Some(language)) => Self::Named(language.tokenizer(has_dictionary)),
            _ => self,
        }
    }

    /// Returns the name of the tokenizer, by the script of the references where it is still `auto`.
    pub fn for_text<'a>(
        self,
        references: impl IntoIterator<Item = &'a str>,
        has_dictionary: bool,
    ) -> TokenizerName {
        match self {
            Self::Auto => Letters::from_lines(references)
                .language()
                .tokenizer(has_dictionary),
            Self::Named(name) => name,
        }
    }
}

impl Language {
    /// The tokenizer of sacreBLEU for the language; characters where that needs a dictionary and there
    /// is none.
    fn tokenizer(self, has_dictionary: bool) -> TokenizerName {
        match self {
            Self::Chinese => TokenizerName::Chinese,
            Self::Japanese if has_dictionary => TokenizerName::Japanese,
            Self::Korean if has_dictionary => TokenizerName::Korean,
            Self::Japanese | Self::Korean | Self::OtherWithoutSpaces => TokenizerName::Char,
            Self::WithSpaces => TokenizerName::V13a,
        }
    }
}

impl Tokenizer {
    /// Returns the share, 0 to 1, of a text's letters of scripts without spaces that the tokenizer
    /// leaves in tokens too long to be words; 0 for a text that has few such letters. Where it is
    /// high, BLEU compares whole phrases, and another tokenizer should be chosen.
    ///
    /// ```
    /// use polyglow_metrics::Tokenizer;
    ///
    /// let lines = ["彼は東京都に住んでいますが、大阪で働いています。"];
    /// assert_eq!(Tokenizer::V13a.unsplit_share(lines), 1.0);
    /// assert_eq!(Tokenizer::Char.unsplit_share(lines), 0.0);
    /// ```
    pub fn unsplit_share<'a>(&self, lines: impl IntoIterator<Item = &'a str>) -> f64 {
        let mut all = Letters::default();
        let mut unsplit = 0;
        for line in lines {
            let line = self.tokenize(line);
            for word in python::words(&line) {
                let letters = Letters::from_lines([word]);
                if letters.without_spaces() > LONG_WORD {
                    unsplit += letters.without_spaces();
                }
                all = all + letters;
            }
        }
        if all.are_without_spaces() {
            unsplit as f64 / all.without_spaces() as f64
        } else {
            0.0
        }
    }
}

impl fmt::Display for TokenizerChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str(AUTO),
            Self::Named(name) => name.fmt(formatter),
        }
    }
}

impl FromStr for TokenizerChoice {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        if name == AUTO {
            Ok(Self::Auto)
        } else {
            name.parse().map(Self::Named)
        }
    }
}

impl Serialize for TokenizerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenizerChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_and_every_name_are_written_as_they_are_read() {
        let names = TokenizerName::ALL.map(|name| (name.name(), TokenizerChoice::Named(name)));
        for (text, choice) in [(AUTO, TokenizerChoice::Auto)].into_iter().chain(names) {
            let json = format!("\"{text}\"");
            assert_eq!(
                serde_json::to_string(&choice).expect("it is a string"),
                json
            );
            assert_eq!(
                serde_json::from_str::<TokenizerChoice>(&json).expect("it is known"),
                choice
            );
        }
        let error = serde_json::from_str::<TokenizerChoice>("\"moses\"")
            .expect_err("there is none")
            .to_string();
        assert!(
            error.contains("there is no tokenizer `moses`") && error.contains("`auto`"),
            "{error}"
        );
    }

    #[test]
    fn a_language_code_decides_in_each_of_its_spellings() {
        let of = |code| TokenizerChoice::Auto.for_language(code, false);
        for (code, name) in [
            ("zh", TokenizerName::Chinese),
            ("zh-Hant", TokenizerName::Chinese),
            ("zho_Hans", TokenizerName::Chinese),
            ("yue", TokenizerName::Chinese),
            ("JA", TokenizerName::Char),
            ("jpn_Jpan", TokenizerName::Char),
            ("ko.txt", TokenizerName::Char),
            ("th", TokenizerName::Char),
            ("lao", TokenizerName::Char),
            ("my_MM", TokenizerName::Char),
            ("khm_Khmr", TokenizerName::Char),
            ("bod_Tibt", TokenizerName::Char),
        ] {
            assert_eq!(of(code), TokenizerChoice::Named(name), "{code}");
        }
        for code in ["de", "tgt", "", "-", "zh_Latn", "thx"] {
            assert_eq!(of(code), TokenizerChoice::Auto, "{code}");
        }
        let korean = TokenizerChoice::Auto.for_language("ko", true);
        assert_eq!(korean, TokenizerChoice::Named(TokenizerName::Korean));
        let given = TokenizerChoice::Named(TokenizerName::None);
        assert_eq!(given.for_language("ja", true), given);
    }

    #[test]
    fn a_script_decides_where_the_code_says_nothing() {
        let of = |line| TokenizerChoice::Auto.for_text([line], false);
        assert_eq!(
            of("Der Rat hat den Plan am Dienstag angenommen."),
            TokenizerName::V13a
        );
        assert_eq!(
            of("وافق المجلس على الخطة يوم الثلاثاء."),
            TokenizerName::V13a
        );
        assert_eq!(
            of("परिषद ने मंगलवार को योजना को मंजूरी दी।"),
            TokenizerName::V13a
        );
        assert_eq!(of(""), TokenizerName::V13a);
        assert_eq!(of("理事会星期二批准了该计划。"), TokenizerName::Chinese);
        assert_eq!(of("評議会は火曜日に計画を承認した。"), TokenizerName::Char);
        assert_eq!(of("의회는 화요일에 계획을 승인했다."), TokenizerName::Char);
        assert_eq!(of("สภาอนุมัติแผนเมื่อวันอังคาร"), TokenizerName::Char);
        // A name in another script does not change a language, nor do Latin names a Chinese text.
        assert_eq!(
            of("The Chinese name of Beijing is written 北京 in characters."),
            TokenizerName::V13a
        );
        assert_eq!(
            of("Debian 是一个 Linux 发行版, 由志愿者维护。"),
            TokenizerName::Chinese
        );
        assert_eq!(
            TokenizerChoice::Auto.for_text(["의회는 승인했다."], true),
            TokenizerName::Korean
        );
        assert_eq!(
            TokenizerChoice::Auto.for_text(["承認した。"], true),
            TokenizerName::Japanese
        );
    }

    #[test]
    fn what_is_split_at_spaces_alone_is_unsplit_unless_it_has_spaces() {
        let raw = ["สภาอนุมัติแผนเมื่อวันอังคารที่ผ่านมา", "ฉันชอบกินผลไม้ทุกวันตอนเช้า"];
        for tokenizer in [
            Tokenizer::V13a,
            Tokenizer::International,
            Tokenizer::None,
            Tokenizer::Chinese,
        ] {
            assert!(tokenizer.unsplit_share(raw) > 0.9, "{tokenizer:?}");
        }
        let split = |tokenizer: Tokenizer, line| tokenizer.unsplit_share([line]) < f64::EPSILON;
        assert!(raw.into_iter().all(|line| split(Tokenizer::Char, line)));
        assert!(split(Tokenizer::V13a, "สภา อนุมัติ แผน เมื่อ วันอังคาร"));
        assert!(split(Tokenizer::V13a, "Donaudampfschifffahrtsgesellschaft"));
        assert!(split(Tokenizer::V13a, "의회는 화요일에 계획을 승인했다."));
        assert!(split(Tokenizer::V13a, ""));
    }
}
