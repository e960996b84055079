//! The tokenizers BLEU knows, each as sacreBLEU has it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::MetricError;

mod chinese;
mod international;
mod rewrite;
mod western;

pub(crate) use rewrite::surround;
pub(crate) use western::{replace_entities, split_periods_and_dashes, split_western_symbols};

/// How BLEU splits a line into words, by sacreBLEU's names: in signatures, in [`FromStr`] and in serde.
///
/// ```
/// use polyglow_metrics::Tokenizer;
///
/// let words = |tokenizer: Tokenizer| {
///     let line = tokenizer.tokenize("Prices rose by 3.5% to $1,299.00 in 2023-24.");
///     line.split_whitespace().collect::<Vec<_>>().join(" ")
/// };
/// assert_eq!(words(Tokenizer::V13a), "Prices rose by 3.5 % to $ 1,299.00 in 2023 - 24 .");
/// assert_eq!(words("intl".parse()?), "Prices rose by 3.5 % to $ 1,299.00 in 2023-24.");
/// assert_eq!(words(Tokenizer::None), "Prices rose by 3.5% to $1,299.00 in 2023-24.");
/// # Ok::<(), polyglow_metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// `13a`: the script mteval-v13a.pl of WMT, for languages that put spaces between words; the default.
    #[default]
    #[serde(rename = "13a")]
    V13a,
    /// `intl`: the script mteval-v14.pl, which splits off every Unicode punctuation mark and symbol.
    #[serde(rename = "intl")]
    International,
    /// `char`: each character is a token.
    Char,
    /// `zh`: each Chinese character is a token; the rest is split as by `13a`.
    #[serde(rename = "zh")]
    Chinese,
    /// `none`: splits at whitespace only, for text that is already tokenized.
    None,
}

impl Tokenizer {
    /// All tokenizers, in the order in which errors list their names.
    pub const ALL: [Self; 5] = [Self::V13a, Self::International, Self::Char, Self::Chinese, Self::None];

    /// sacreBLEU's name, as in options, signatures and serde.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::International => "intl",
            Self::Char => "char",
            Self::Chinese => "zh",
            Self::None => "none",
        }
    }

    /// Returns the line with at least one whitespace character between tokens.
    pub fn tokenize(self, line: &str) -> String {
        match self {
            Self::V13a => western::tokenize(line),
            Self::International => international::tokenize(line),
            Self::Char => line.chars().flat_map(|c| [c, ' ']).collect(),
            Self::Chinese => chinese::tokenize(line),
            Self::None => line.to_owned(),
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Tokenizer {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let named = Self::ALL.into_iter().find(|tokenizer| tokenizer.name() == name);
        named.ok_or_else(|| MetricError::UnknownTokenizer { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tokenizer_is_found_by_its_name() {
        for tokenizer in Tokenizer::ALL {
            assert_eq!(tokenizer.to_string().parse(), Ok(tokenizer));
        }
        assert_eq!(Tokenizer::default().name(), "13a");
    }

    #[test]
    fn serde_has_the_same_names() {
        for tokenizer in Tokenizer::ALL {
            let json = format!("\"{tokenizer}\"");
            assert_eq!(serde_json::to_string(&tokenizer).expect("a unit variant is a string"), json);
            assert_eq!(serde_json::from_str::<Tokenizer>(&json).expect("the name is known"), tokenizer);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let parsed = "moses".parse::<Tokenizer>();
        assert_eq!(parsed, Err(MetricError::UnknownTokenizer { name: "moses".to_owned() }));
        let from_str = parsed.expect_err("there is no such tokenizer").to_string();
        let from_serde = serde_json::from_str::<Tokenizer>("\"moses\"").expect_err("there is none").to_string();
        for tokenizer in Tokenizer::ALL {
            let name = format!("`{tokenizer}`");
            assert!(from_str.contains(&name) && from_serde.contains(&name), "{name}: {from_str}; {from_serde}");
        }
    }
}
