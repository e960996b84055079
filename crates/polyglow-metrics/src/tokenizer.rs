//! The tokenizers of BLEU, each as in sacreBLEU.

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
mod sentencepiece;
mod western;

pub use choice::TokenizerChoice;
pub use mecab::MecabDictionary;
pub(crate) use rewrite::surround;
pub use sentencepiece::SentencePieceModel;
pub(crate) use western::{replace_entities, split_periods_and_dashes, split_western_symbols};

/// The number of words in IPADIC 2.7.0-20070801, the dictionary of sacreBLEU.
const IPADIC_WORDS: u32 = 392_126;
/// The number of words in mecab-ko-dic 2.1.1-20180720, the dictionary of sacreBLEU.
const MECAB_KO_DIC_WORDS: u32 = 811_795;

/// The name of a tokenizer: sacreBLEU's names, in options, in [`FromStr`] and in serde.
///
/// [`TokenizerName::open`] makes a [`Tokenizer`] of it, and reads the file that four of them need.
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

    /// Returns the name as sacreBLEU spells it.
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

    /// Makes the tokenizer of that name. `dictionary` is the folder of a compiled MeCab dictionary,
    /// which `ja-mecab` and `ko-mecab` need; `spm` is a SentencePiece model, which `flores101` and
    /// `flores200` need.
    ///
    /// # Errors
    /// A file that the tokenizer needs is missing, cannot be read, or is not the one that sacreBLEU
    /// uses.
    pub fn open(
        self,
        dictionary: Option<&Path>,
        spm: Option<&Path>,
    ) -> Result<Tokenizer, MetricError> {
        Ok(match self {
            Self::V13a => Tokenizer::V13a,
            Self::International => Tokenizer::International,
            Self::Char => Tokenizer::Char,
            Self::Chinese => Tokenizer::Chinese,
            Self::Japanese => Tokenizer::Japanese(self.open_mecab(dictionary, IPADIC_WORDS)?),
            Self::Korean => Tokenizer::Korean(self.open_mecab(dictionary, MECAB_KO_DIC_WORDS)?),
            Self::Flores101 => Tokenizer::Flores101(self.open_sentencepiece(spm)?),
            Self::Flores200 => Tokenizer::Flores200(self.open_sentencepiece(spm)?),
            Self::None => Tokenizer::None,
        })
    }

    /// Reads a dictionary, which must have as many words as sacreBLEU's: another one cuts other
    /// words, and scores cannot be compared.
    fn open_mecab(
        self,
        folder: Option<&Path>,
        expected: u32,
    ) -> Result<Arc<MecabDictionary>, MetricError> {
        let Some(folder) = folder else {
            return Err(self.missing("the folder of a compiled MeCab dictionary"));
        };
        let dictionary = MecabDictionary::open(folder)?;
        let words = dictionary.num_words();
        if words != expected {
            return Err(MetricError::WrongDictionary {
                path: folder.to_owned(),
                tokenizer: self,
                words,
                expected,
            });
        }
        Ok(Arc::new(dictionary))
    }

    fn open_sentencepiece(
        self,
        path: Option<&Path>,
    ) -> Result<Arc<SentencePieceModel>, MetricError> {
        let Some(path) = path else {
            return Err(self.missing("a SentencePiece model"));
        };
        SentencePieceModel::open(path).map(Arc::new)
    }

    fn missing(self, what: &'static str) -> MetricError {
        MetricError::MissingFile {
            tokenizer: self,
            what,
        }
    }
}

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

/// A tokenizer, ready to split lines into words.
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
    /// Returns the name of the tokenizer.
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

    /// Returns the name that signatures have: as sacreBLEU writes it, with the versions of MeCab that
    /// it installs.
    pub fn signature(&self) -> &'static str {
        match self {
            Self::Japanese(_) => "ja-mecab-0.996-IPA",
            Self::Korean(_) => "ko-mecab-0.996/ko-0.9.2-KO",
            other => other.name().name(),
        }
    }

    /// Returns a line with at least one whitespace character between tokens.
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
