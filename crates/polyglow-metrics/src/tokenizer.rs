//! The tokenizers BLEU knows, each as sacreBLEU has it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::MetricError;
use crate::python;

mod chinese;
mod choice;
mod international;
mod language;
mod mecab;
mod rewrite;
mod sentence_piece;
mod western;

pub use choice::TokenizerChoice;
pub use mecab::MecabDictionary;
pub(crate) use rewrite::surround;
pub use sentence_piece::SentencePieceModel;
pub(crate) use western::{replace_entities, split_periods_and_dashes, split_western_symbols};

/// What a tokenizer is called: sacreBLEU's names, in options, in [`FromStr`] and in serde.
///
/// Most names are all that [`Tokenizer`] needs; four of them also need a file, which
/// [`TokenizerName::open`] reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenizerName {
    /// `13a`: the script mteval-v13a.pl of WMT, for languages that put spaces between words; the
    /// default.
    #[default]
    #[serde(rename = "13a")]
    V13a,
    /// `intl`: the script mteval-v14.pl, which splits off every Unicode punctuation mark and
    /// symbol.
    #[serde(rename = "intl")]
    International,
    /// `char`: each character is a token.
    #[serde(rename = "char")]
    Char,
    /// `zh`: each Chinese character is a token; the rest is split as by `13a`.
    #[serde(rename = "zh")]
    Chinese,
    /// `ja-mecab`: the words of MeCab with the dictionary IPADIC.
    #[serde(rename = "ja-mecab")]
    Japanese,
    /// `ko-mecab`: the morphemes of MeCab-ko with the dictionary mecab-ko-dic.
    #[serde(rename = "ko-mecab")]
    Korean,
    /// `flores101`: the pieces of the SentencePiece model of FLORES-101, for 101 languages.
    #[serde(rename = "flores101")]
    Flores101,
    /// `flores200`: the pieces of the SentencePiece model of FLORES-200, for 200 languages.
    #[serde(rename = "flores200")]
    Flores200,
    /// `none`: splits at whitespace only, for text that is already tokenized.
    #[serde(rename = "none")]
    None,
}

impl TokenizerName {
    /// All names, in the order in which errors list them.
    pub const ALL: [Self; 9] = [
        Self::V13a,
        Self::International,
        Self::Char,
        Self::Chinese,
        Self::Japanese,
        Self::Korean,
        Self::Flores101,
        Self::Flores200,
        Self::None,
    ];

    /// The name itself.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::International => "intl",
            Self::Char => "char",
            Self::Chinese => "zh",
            Self::Japanese => "ja-mecab",
            Self::Korean => "ko-mecab",
            Self::Flores101 => "flores101",
            Self::Flores200 => "flores200",
            Self::None => "none",
        }
    }

    /// The tokenizer of that name. `dictionary` is the folder of a compiled MeCab dictionary, which
    /// `ja-mecab` and `ko-mecab` need; `spm` is a SentencePiece model, which `flores101` and
    /// `flores200` need.
    ///
    /// # Errors
    /// What the tokenizer needs is missing, cannot be read, or is not what sacreBLEU uses.
    pub fn open(
        self,
        dictionary: Option<&Path>,
        spm: Option<&Path>,
    ) -> Result<Tokenizer, MetricError> {
        let needs = |what| MetricError::MissingFile {
            tokenizer: self,
            what,
        };
        let mecab = || {
            let folder =
                dictionary.ok_or_else(|| needs("the folder of a compiled MeCab dictionary"))?;
            let dictionary = MecabDictionary::open(folder)?;
            let expected = if self == Self::Japanese {
                IPADIC_WORDS
            } else {
                MECAB_KO_DIC_WORDS
            };
            let (path, words) = (folder.to_owned(), dictionary.num_words());
            if words == expected {
                Ok(Arc::new(dictionary))
            } else {
                Err(MetricError::WrongDictionary {
                    path,
                    tokenizer: self,
                    words,
                    expected,
                })
            }
        };
        let pieces = || {
            let path = spm.ok_or_else(|| needs("a SentencePiece model"))?;
            SentencePieceModel::open(path).map(Arc::new)
        };
        Ok(match self {
            Self::V13a => Tokenizer::V13a,
            Self::International => Tokenizer::International,
            Self::Char => Tokenizer::Char,
            Self::Chinese => Tokenizer::Chinese,
            Self::Japanese => Tokenizer::Japanese(mecab()?),
            Self::Korean => Tokenizer::Korean(mecab()?),
            Self::Flores101 => Tokenizer::Flores101(pieces()?),
            Self::Flores200 => Tokenizer::Flores200(pieces()?),
            Self::None => Tokenizer::None,
        })
    }
}

/// Words in IPADIC 2.7.0-20070801, by which sacreBLEU knows it.
const IPADIC_WORDS: u32 = 392_126;
/// Words in mecab-ko-dic 2.1.1-20180720, by which sacreBLEU knows it.
const MECAB_KO_DIC_WORDS: u32 = 811_795;

impl fmt::Display for TokenizerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for TokenizerName {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let named = Self::ALL
            .into_iter()
            .find(|tokenizer| tokenizer.name() == name);
        named.ok_or_else(|| MetricError::UnknownTokenizer {
            name: name.to_owned(),
        })
    }
}

/// How BLEU splits a line into words, with all that this takes.
///
/// ```
/// use polyglow_metrics::{Tokenizer, TokenizerName};
///
/// let words = |tokenizer: Tokenizer| {
///     let line = tokenizer.tokenize("Prices rose by 3.5% to $1,299.00 in 2023-24.");
///     line.split_whitespace().collect::<Vec<_>>().join(" ")
/// };
/// assert_eq!(words(Tokenizer::V13a), "Prices rose by 3.5 % to $ 1,299.00 in 2023 - 24 .");
/// assert_eq!(words("intl".parse::<TokenizerName>()?.open(None, None)?), "Prices rose by 3.5 % to $ 1,299.00 in 2023-24.");
/// assert_eq!(words(Tokenizer::None), "Prices rose by 3.5% to $1,299.00 in 2023-24.");
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tokenizer {
    /// [`TokenizerName::V13a`], the default.
    #[default]
    V13a,
    /// [`TokenizerName::International`].
    International,
    /// [`TokenizerName::Char`].
    Char,
    /// [`TokenizerName::Chinese`].
    Chinese,
    /// [`TokenizerName::Japanese`], with its dictionary.
    Japanese(Arc<MecabDictionary>),
    /// [`TokenizerName::Korean`], with its dictionary.
    Korean(Arc<MecabDictionary>),
    /// [`TokenizerName::Flores101`], with its model.
    Flores101(Arc<SentencePieceModel>),
    /// [`TokenizerName::Flores200`], with its model.
    Flores200(Arc<SentencePieceModel>),
    /// [`TokenizerName::None`].
    None,
}

impl Tokenizer {
    /// What it is called.
    pub fn name(&self) -> TokenizerName {
        match self {
            Self::V13a => TokenizerName::V13a,
            Self::International => TokenizerName::International,
            Self::Char => TokenizerName::Char,
            Self::Chinese => TokenizerName::Chinese,
            Self::Japanese(_) => TokenizerName::Japanese,
            Self::Korean(_) => TokenizerName::Korean,
            Self::Flores101(_) => TokenizerName::Flores101,
            Self::Flores200(_) => TokenizerName::Flores200,
            Self::None => TokenizerName::None,
        }
    }

    /// How signatures name it: as sacreBLEU does with the versions of MeCab that it installs.
    pub fn signature(&self) -> &'static str {
        match self {
            Self::Japanese(_) => "ja-mecab-0.996-IPA",
            Self::Korean(_) => "ko-mecab-0.996/ko-0.9.2-KO",
            other => other.name().name(),
        }
    }

    /// Returns the line with at least one whitespace character between tokens.
    pub fn tokenize(&self, line: &str) -> String {
        match self {
            Self::V13a => western::tokenize(line),
            Self::International => international::tokenize(line),
            Self::Char => line.chars().flat_map(|c| [c, ' ']).collect(),
            Self::Chinese => chinese::tokenize(line),
            Self::Japanese(dictionary) | Self::Korean(dictionary) => {
                dictionary.words(python::trim(line)).join(" ")
            }
            Self::Flores101(model) | Self::Flores200(model) => model.pieces(line).join(" "),
            Self::None => line.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tokenizer_is_found_by_its_name() {
        for name in TokenizerName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(TokenizerName::default().name(), "13a");
        assert_eq!(Tokenizer::default().name(), TokenizerName::default());
    }

    #[test]
    fn serde_has_the_same_names() {
        for name in TokenizerName::ALL {
            let json = format!("\"{name}\"");
            assert_eq!(
                serde_json::to_string(&name).expect("a unit variant is a string"),
                json
            );
            assert_eq!(
                serde_json::from_str::<TokenizerName>(&json).expect("the name is known"),
                name
            );
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let parsed = "moses".parse::<TokenizerName>();
        assert_eq!(
            parsed,
            Err(MetricError::UnknownTokenizer {
                name: "moses".to_owned()
            })
        );
        let from_str = parsed.expect_err("there is no such tokenizer").to_string();
        let from_serde = serde_json::from_str::<TokenizerName>("\"moses\"")
            .expect_err("there is none")
            .to_string();
        for name in TokenizerName::ALL {
            let name = format!("`{name}`");
            assert!(
                from_str.contains(&name) && from_serde.contains(&name),
                "{name}: {from_str}; {from_serde}"
            );
        }
    }

    #[test]
    fn a_tokenizer_that_needs_a_file_says_which() {
        for (name, what) in [
            ("ja-mecab", "MeCab dictionary"),
            ("flores200", "SentencePiece model"),
        ] {
            let named: TokenizerName = name.parse().expect("the name is known");
            let error = named
                .open(None, None)
                .expect_err("nothing is given")
                .to_string();
            assert!(error.contains(name) && error.contains(what), "{error}");
        }
    }
}
