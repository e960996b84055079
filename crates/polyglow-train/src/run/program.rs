//! The program that writes a run: another one may lack its parts.

use std::env;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The program that writes a run, or has written it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// The name and the version that this process has been given.
static THIS: OnceLock<Program> = OnceLock::new();

impl Program {
    /// Returns the program of this process: what [`Self::set`] was called with, or else the name of
    /// the executable with this library's version.
    pub fn this() -> Self {
        THIS.get().cloned().unwrap_or_else(Self::of_executable)
    }

    /// Sets the name and the version of the program, before it writes a run; the first call counts.
    pub fn set(name: impl Into<String>, version: impl Into<String>) {
        let program = Self {
            name: name.into(),
            version: version.into(),
        };
        // A process is one program, whatever else calls this.
        let _ = THIS.set(program);
    }

    fn of_executable() -> Self {
        let path = env::current_exe().unwrap_or_default();
        let stem = path.file_stem().map(OsStr::to_string_lossy);
        Self {
            name: stem.map_or_else(|| "unknown".to_owned(), Into::into),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Writes the name and the version: `polyglow 0.1.0`.
impl Display for Program {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.name, self.version)
    }
}
