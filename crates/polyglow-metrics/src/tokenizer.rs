//! The tokenizers BLEU knows, each as sacreBLEU has it.

use std::fmt;
use std::str::FromStr;

use crate::error::MetricError;

mod chinese;
mod international;
mod rewrite;
mod western;

pub(crate) use rewrite::surround;
pub(crate) use western::{replace_entities, split_periods_and_dashes, split_western_symbols};

/// How a line is split into tokens before words are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tokenizer {
    /// `13a`: the script mteval-v13a.pl of WMT, for languages written as European ones are.
    #[default]
    V13a,
    /// `intl`: the script mteval-v14.pl, which splits off all of Unicode's punctuation and symbols.
    International,
    /// `char`: each character is a token.
    Char,
    /// `zh`: each Chinese character is a token; the rest is split as by `13a`.
    Chinese,
    /// `none`: words are separated by whitespace only.
    None,
}

impl Tokenizer {
    /// All tokenizers, in the order of their names' listing.
    pub const ALL: [Self; 5] = [Self::V13a, Self::International, Self::Char, Self::Chinese, Self::None];

    /// The name that options and signatures use.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::International => "intl",
            Self::Char => "char",
            Self::Chinese => "zh",
            Self::None => "none",
        }
    }

    /// Returns the line with whitespace between its tokens, one or more characters of it.
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
        let error = MetricError::UnknownTokenizer { name: "moses".to_owned() };
        assert_eq!("moses".parse::<Tokenizer>(), Err(error));
    }
}
