//! The record of a split, `split.json`: the hash of its text, and those of the files that were
//! written. It tells a split of another text from one that a user has edited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use fs_err::File;
use polyglow_data::file;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the file in the folder of a split.
pub(super) const NAME: &str = "split.json";
/// Bytes that are hashed at a time.
const BUFFER: usize = 1 << 18;

/// SHA-256 hashes in hexadecimal digits.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The hash of the text that was split; empty until a first split is complete.
    pub(super) text: String,
    /// The hash of each file that was written, by its name.
    pub(super) files: BTreeMap<String, String>,
    /// The hash of each file of a newer split while it replaces these; a killed process leaves them
    /// here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) unfinished: BTreeMap<String, String>,
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
        let path = folder.join(NAME);
        let text = serde_json::to_string_pretty(self)? + "\n";
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Whether this command wrote, or was about to write, a file of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.unfinished.contains_key(name)
    }

    /// Whether the files of that list are those of a split that is complete.
    pub(super) fn is_split_into(&self, files: &[String]) -> bool {
        let has_all = files.len() == self.files.len()
            && files.iter().all(|name| self.files.contains_key(name));
        has_all && self.unfinished.is_empty()
    }

    /// Lists the files in the folder that are not as they were written; a missing file is not
    /// edited.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn edited(&self, folder: &Path) -> anyhow::Result<Vec<&str>> {
        let mut edited = Vec::new();
        let names: BTreeSet<&String> = self.files.keys().chain(self.unfinished.keys()).collect();
        for name in names {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            let hash = hash_file(&path)?;
            if self.files.get(name) != Some(&hash) && self.unfinished.get(name) != Some(&hash) {
                edited.push(name.as_str());
            }
        }
        Ok(edited)
    }

    /// Makes the files of an unfinished split that are in the folder the record's own.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn adopt_unfinished(&mut self, folder: &Path) -> anyhow::Result<()> {
        for (name, written) in std::mem::take(&mut self.unfinished) {
            let path = folder.join(&name);
            if path.symlink_metadata().is_ok() && hash_file(&path)? == written {
                self.files.insert(name, written);
            }
        }
        Ok(())
    }

    /// Removes the files that another split does not have; no one has edited them.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(super) fn remove_files_except(
        &self,
        kept: &BTreeMap<String, String>,
        folder: &Path,
    ) -> anyhow::Result<()> {
        for name in self.files.keys().filter(|name| !kept.contains_key(*name)) {
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

/// Returns a hash in hexadecimal digits, as records have it.
pub(super) fn hexadecimal(hash: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * hash.len());
    for byte in hash {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
