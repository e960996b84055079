//! The files that a configuration names: their forms, and their paths plain or compressed.

use std::path::{Path, PathBuf};

use super::{Source, moses, tmx};
use crate::compression::{ENDINGS, plain_name};
use crate::config::{GOLD, wrong};
use crate::error::DataError;

/// The form of parallel text, which the ending of its name tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One file for each side; the name is what both have before the language.
    TwoFiles,
    /// Both sides on one line, with a tab between.
    Tsv,
    /// A translation memory.
    Tmx,
    /// A zip archive with a file for each side.
    Moses,
}

impl Form {
    /// Returns the form of the text at `path`, which may be compressed.
    pub(super) fn from_path(path: &Path) -> Self {
        let name = path.to_string_lossy();
        let ending = Path::new(plain_name(&name)).extension();
        match ending.and_then(|ending| ending.to_str()) {
            Some("tsv") => Self::Tsv,
            Some("tmx") => Self::Tmx,
            Some("zip") => Self::Moses,
            _ => Self::TwoFiles,
        }
    }
}

/// Whether `path` is a TSV file, with both sides of each pair on one line.
pub(crate) fn is_tsv(path: &Path) -> bool {
    Form::from_path(path) == Form::Tsv
}

/// Whether `path` is, by its name, a file with both sides of a text: TSV, a translation memory, or an
/// archive in Moses format.
pub fn has_both_sides(path: &Path) -> bool {
    Form::from_path(path) != Form::TwoFiles
}

/// Finds the files of the parallel text at `path`.
///
/// # Errors
/// As [`existing`]; [`DataError::BrokenArchive`] for an archive that is not complete,
/// [`DataError::Archive`] for one without one member for each language.
pub(super) fn parallel_source(
    key: &str,
    path: &Path,
    [src, tgt]: [&str; 2],
) -> Result<Source, DataError> {
    Ok(match Form::from_path(path) {
        Form::TwoFiles => Source::TwoFiles {
            src: existing(key, &with_ending(path, src))?,
            tgt: existing(key, &with_ending(path, tgt))?,
        },
        Form::Tsv => Source::Tsv(existing(key, path)?),
        Form::Tmx => Source::Tmx {
            path: existing(key, path)?,
            languages: [src, tgt].map(tmx::Language::new),
        },
        Form::Moses => {
            let [src, tgt] = moses::find_members(&existing(key, path)?, [src, tgt])?;
            Source::Moses { src, tgt }
        }
    })
}

/// Returns the path of the file `path`, or of its compressed form, `path` with `.gz` or `.zst`.
///
/// # Errors
/// [`DataError::MissingFile`] if there is none; [`DataError::NoFile`] if there is something else.
/// The error names `key`, a key of the configuration.
pub(in crate::text) fn existing(key: &str, path: &Path) -> Result<PathBuf, DataError> {
    if let Some(file) = plain_or_compressed(path) {
        return Ok(file);
    }
    let key = key.to_owned();
    let path = path.to_owned();
    match path.metadata() {
        Ok(other) if other.is_dir() => Err(DataError::NoFile {
            key,
            path,
            what: "a folder",
        }),
        Ok(_) => Err(DataError::NoFile {
            key,
            path,
            what: "a pipe",
        }),
        Err(_) => Err(DataError::MissingFile { key, path }),
    }
}

/// Returns `path`, or `path` with an ending of compression, whichever is a file.
pub(super) fn plain_or_compressed(path: &Path) -> Option<PathBuf> {
    let compressed = ENDINGS.map(|ending| with_ending(path, ending));
    std::iter::once(path.to_owned())
        .chain(compressed)
        .find(|candidate| candidate.is_file())
}

/// Returns the path of a file of alignments, which may be compressed.
pub(super) fn alignment_file(path: &Path) -> Result<PathBuf, DataError> {
    plain_or_compressed(path).ok_or_else(|| {
        let problem = if path == Path::new(GOLD) {
            format!("is \"{GOLD}\", which stands for the alignments of an embedded corpus")
        } else {
            let name = path.display();
            let compressed = compressed_names(path);
            format!("names `{name}`, but there is no such file{compressed}")
        };
        wrong("data.alignments", problem)
    })
}

/// Says in a message, after the name of a missing file, which compressed ones are missing, too;
/// nothing for a name that is already one of a compressed file.
pub(crate) fn compressed_names(path: &Path) -> String {
    let name = path.display().to_string();
    if plain_name(&name) != name || Form::from_path(path) == Form::Moses {
        return String::new();
    }
    let names = ENDINGS.map(|ending| format!("`{name}.{ending}`"));
    format!(", nor {}", names.join(" or "))
}

/// Appends `.ending` to a path. `Path::with_extension` would replace a part of names such as
/// `train.v2`.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
