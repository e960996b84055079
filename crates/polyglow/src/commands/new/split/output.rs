//! The files of a split while they are written.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyglow_data::file::NewFile;
use polyglow_data::raw_bytes::original_bytes;
use sha2::{Digest, Sha256};

use super::record::hexadecimal;

/// A file of a set, which gets its name when it is complete.
pub(super) struct Output {
    name: String,
    path: PathBuf,
    file: NewFile,
    buffer: Vec<u8>,
    /// The hash of the bytes that were flushed.
    hash: Sha256,
}

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 16;

impl Output {
    /// Creates the file of a side of a set, under a temporary name in `folder`.
    pub(super) fn create(folder: &Path, set: &str, ending: &str) -> anyhow::Result<Self> {
        let name = format!("{set}.{ending}");
        let path = folder.join(&name);
        let file =
            NewFile::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self {
            name,
            path,
            file,
            buffer: Vec::with_capacity(BUFFER),
            hash: Sha256::new(),
        })
    }

    /// Writes a line, with the bytes that it was read from.
    pub(super) fn write(&mut self, line: &str) -> anyhow::Result<()> {
        self.buffer.extend_from_slice(&original_bytes(line));
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Returns the name that the file gets.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hash of the bytes that were flushed, as records have it.
    pub(super) fn hash(&self) -> String {
        hexadecimal(&self.hash.clone().finalize())
    }

    /// Writes the collected bytes to the file.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        let mut file = self.file.file();
        file.write_all(&self.buffer)
            .with_context(|| format!("cannot write `{}`", self.path.display()))?;
        self.hash.update(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// Gives the file its name.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { path, file, .. } = self;
        file.commit()
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}
