//! Tables of what a config chooses by name: what is built in, and what a program has registered.

use std::fmt::{self, Debug, Formatter};
use std::sync::{PoisonError, RwLock};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ModelError;

/// Something that a config chooses by its name.
pub trait Named: Sync + 'static {
    /// Returns the name.
    fn name(&self) -> &'static str;
}

/// A row whose type decides the table that it stands in, so that a [`Choice`] of this type needs a
/// name alone.
pub trait Row: Named + Sized {
    /// Returns the table; its first row is the default.
    fn table() -> &'static Table<Self>;
}

/// The rows that are built in, and those that the program has registered.
///
/// It belongs to the process, because a config is read in many places (commands, servers, other
/// ranks), all of which must know the same names.
pub struct Table<R: ?Sized + 'static> {
    key: &'static str,
    built_in: &'static [&'static R],
    registered: RwLock<Vec<&'static R>>,
}

impl<R: Named + ?Sized> Table<R> {
    /// Makes a table of what is built in, for a key of a config such as `train.schedule`.
    pub const fn new(key: &'static str, built_in: &'static [&'static R]) -> Self {
        Self {
            key,
            built_in,
            registered: RwLock::new(Vec::new()),
        }
    }

    /// Returns all rows, those that are built in first.
    pub fn rows(&self) -> Vec<&'static R> {
        // A panic while the table was locked has left it whole: it only grows.
        let registered = self.registered.read();
        let registered = registered.unwrap_or_else(PoisonError::into_inner);
        [self.built_in, &registered[..]].concat()
    }

    /// Returns the row of this name.
    pub fn find(&self, name: &str) -> Option<&'static R> {
        self.rows().into_iter().find(|row| row.name() == name)
    }

    /// Returns whether a row that is built in has this name.
    pub fn has_built_in(&self, name: &str) -> bool {
        self.built_in.iter().any(|row| row.name() == name)
    }

    /// Adds a row. It stays until the process ends, since a program registers a few of them once.
    ///
    /// # Errors
    /// Its name is no word in lower case, or that of another row.
    pub fn register(&self, row: Box<R>) -> Result<(), ModelError> {
        let name = row.name();
        let is_in_word =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_in_word) {
            let reason = "must be a word of lower-case letters, digits, `-` and `_`";
            return Err(self.refused(name, reason));
        }
        let registered = self.registered.write();
        let mut registered = registered.unwrap_or_else(PoisonError::into_inner);
        let mut rows = self.built_in.iter().chain(registered.iter());
        if rows.any(|row| row.name() == name) {
            return Err(self.refused(name, "there is one of this name already"));
        }
        registered.push(Box::leak(row));
        Ok(())
    }

    /// Makes the error of a name that cannot be registered.
    pub(crate) fn refused(&self, name: &str, reason: &str) -> ModelError {
        ModelError::config(self.key, format!("\"{name}\""), reason)
    }
}

/// A row that a config has chosen by its name.
pub struct Choice<R: Row>(pub &'static R);

impl<R: Row> Choice<R> {
    /// Returns what this name chooses; `None` if nothing has it.
    pub fn named(name: &str) -> Option<Self> {
        R::table().find(name).map(Self)
    }

    /// Returns its name, as a config spells it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl<R: Row> Default for Choice<R> {
    fn default() -> Self {
        Self(R::table().built_in[0])
    }
}

impl<R: Row> Clone for Choice<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Row> Copy for Choice<R> {}

impl<R: Row> PartialEq for Choice<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl<R: Row> Eq for Choice<R> {}

impl<R: Row> Debug for Choice<R> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())
    }
}

impl<R: Row> Serialize for Choice<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de, R: Row> Deserialize<'de> for Choice<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = read_name(deserializer)?;
        let names = || R::table().rows().into_iter().map(Named::name);
        Self::named(&name).ok_or_else(|| D::Error::custom(unknown_name(&name, names())))
    }
}

/// Reads a name.
fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Name;

    impl Visitor<'_> for Name {
        type Value = String;

        fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
            formatter.write_str("one of the names that the key can have, in quotes")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
            Ok(name.to_owned())
        }
    }

    deserializer.deserialize_str(Name)
}

/// Says which names there are, in the words in which serde says it of an enum.
fn unknown_name(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    if known.is_empty() {
        return format!("unknown variant `{name}`: this program has registered none");
    }
    format!(
        "unknown variant `{name}`, expected one of {}",
        known.join(", ")
    )
}
