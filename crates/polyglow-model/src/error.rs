//! Errors in the settings of models and searches.

/// An error of this crate: an invalid setting of a model or a search.
///
/// Wrong tensor shapes are bugs, not errors: they panic with the axis and both sizes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A configuration key has a value outside its range, or one that contradicts another key.
    #[error("`{key} = {value}`: {reason}")]
    Config {
        /// The key, with its section: `model.num_heads`.
        key: &'static str,
        /// The value as the user wrote it.
        value: String,
        /// Which values are allowed, and why.
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

impl ModelError {
    pub(crate) fn config(key: &'static str, value: impl std::fmt::Display, reason: impl Into<String>) -> Self {
        Self::Config { key, value: value.to_string(), reason: reason.into() }
    }
}
