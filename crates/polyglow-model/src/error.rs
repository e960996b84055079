//! Errors in the settings of models and searches.

use std::fmt;

/// An error of this crate: an invalid setting of a model or a search.
///
/// Wrong tensor shapes are bugs, not errors: they panic with the axis and both sizes.
///
/// With [`Debug`](fmt::Debug) it is displayed as well: that is what a program prints whose `main`
/// returns it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A configuration key has a value outside its range, or one that contradicts another key.
    #[error("`{key} = {value}`: {reason}")]
    Config {
        /// The key, with its section: `model.num_heads`.
        key: &'static str,
        /// The value as the user wrote it.
        value: String,
        /// The values that are allowed, and why.
        reason: String,
    },
    /// Configuration keys were given that the architecture does not have.
    #[error("`{keys}`: nothing of that is in a model with `model.arch = \"{arch}\"`; leave it out")]
    Foreign {
        /// The keys, with their section.
        keys: String,
        /// The architecture.
        arch: &'static str,
    },
}

impl fmt::Debug for ModelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl ModelError {
    /// Makes the error of a key, with its section, whose value is not allowed.
    pub fn config(key: &'static str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self::Config {
            key,
            value: value.to_string(),
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message() {
        let error = ModelError::config("search.beam_size", 0, "must be from 1 to 1024");
        let error: Box<dyn std::error::Error> = Box::new(error);
        assert_eq!(
            format!("{error:?}"),
            "`search.beam_size = 0`: must be from 1 to 1024"
        );
    }
}
