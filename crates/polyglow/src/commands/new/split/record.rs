//! The record of a split, `split.json`: of which text it was made, and what was written. It tells a
//! split of another text from one that a user has edited.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use fs_err::File;
use polyglow_data::file;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const NAME: &str = "split.json";
/// Bytes that are hashed at a time.
const BUFFER: usize = 1 << 18;

/// SHA-256 hashes in hexadecimal digits.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// Of the text that was split.
    pub(super) text: String,
    /// Of each file that was written, by its name.
    pub(super) files: BTreeMap<String, String>,
}

impl Record {
    /// Reads the record in a folder; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no such record.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = folder.join(NAME);
        if !path.is_file() {
            return Ok(None);
        }
        let text = fs_err::read(&path)?;
        let record = serde_json::from_slice(&text);
        record.with_context(|| {
            format!(
                "`{}` is no record of a split; remove the folder, and the text is split again",
                path.display()
            )
        })
    }

    /// Writes the record into a folder.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let (path, text) = (
            folder.join(NAME),
            serde_json::to_string_pretty(self)? + "\n",
        );
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// The files in the folder that are not as they were written; one that is missing is none of
    /// them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn edited(&self, folder: &Path) -> anyhow::Result<Vec<&str>> {
        let mut edited = Vec::new();
        for (name, written) in &self.files {
            let path = folder.join(name);
            if path.symlink_metadata().is_ok() && hash_file(&path)? != *written {
                edited.push(name.as_str());
            }
        }
        Ok(edited)
    }

    /// Removes the files, which nobody has edited.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(super) fn remove_files(&self, folder: &Path) -> anyhow::Result<()> {
        for name in self.files.keys() {
            let path = folder.join(name);
            if path.symlink_metadata().is_ok() {
                fs_err::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn hash_file(path: &Path) -> anyhow::Result<String> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut hash = Sha256::new();
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(bytes);
        let read = bytes.len();
        file.consume(read);
    }
}

/// A hash as it is written into records.
pub(super) fn hexadecimal(hash: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    hash.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
