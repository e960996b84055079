//! `train.max_tokens`: a number of tokens, or `"auto"`.

use std::fmt::{self, Display, Formatter};

use polyglow_predict::error::Result;
use polyglow_predict::settings::DEFAULT_MAX_TOKENS;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The spelling of `auto`.
const AUTO: &str = "auto";

/// The size of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxTokens {
    /// As many as the device has memory for: [`crate::train::find_max_tokens`], before the first
    /// step of a run.
    Auto,
    /// A fixed number of tokens.
    Tokens(usize),
}

impl MaxTokens {
    /// Returns the number, if it is fixed.
    pub fn tokens(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Tokens(tokens) => Some(tokens),
        }
    }
}

impl Default for MaxTokens {
    fn default() -> Self {
        Self::Tokens(DEFAULT_MAX_TOKENS)
    }
}

impl Display for MaxTokens {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str(AUTO),
            Self::Tokens(tokens) => tokens.fmt(formatter),
        }
    }
}

impl Serialize for MaxTokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Tokens(tokens) => tokens.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MaxTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrAuto;

        impl Visitor<'_> for NumberOrAuto {
            type Value = MaxTokens;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("a whole number, 1 or more, or \"auto\"")
            }

            fn visit_u64<E: Error>(self, tokens: u64) -> Result<MaxTokens, E> {
                let tokens = usize::try_from(tokens);
                tokens
                    .map(MaxTokens::Tokens)
                    .map_err(|_| E::invalid_value(Unexpected::Other("so large a number"), &self))
            }

            fn visit_i64<E: Error>(self, tokens: i64) -> Result<MaxTokens, E> {
                let tokens = u64::try_from(tokens)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(tokens), &self))?;
                self.visit_u64(tokens)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MaxTokens, E> {
                if text == AUTO {
                    Ok(MaxTokens::Auto)
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
        }

        deserializer.deserialize_any(NumberOrAuto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        max_tokens: MaxTokens,
    }

    #[test]
    fn a_number_and_auto_are_written_as_they_are_read() {
        for (text, max_tokens) in [
            ("4096", MaxTokens::Tokens(4096)),
            ("\"auto\"", MaxTokens::Auto),
        ] {
            let text = format!("max_tokens = {text}\n");
            assert_eq!(
                toml::from_str::<Table>(&text).expect("it is allowed"),
                Table { max_tokens }
            );
            assert_eq!(
                toml::to_string(&Table { max_tokens }).expect("it can be written"),
                text
            );
        }
    }

    #[test]
    fn anything_else_is_an_error_that_says_what_is_allowed() {
        for text in ["-1", "2.5", "\"Auto\"", "true"] {
            let error = toml::from_str::<Table>(&format!("max_tokens = {text}"))
                .expect_err("it is not allowed");
            assert!(
                error
                    .message()
                    .contains("expected a whole number, 1 or more, or \"auto\""),
                "{text}: {error}"
            );
        }
    }
}
