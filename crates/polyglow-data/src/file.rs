//! Files that are either complete or absent, even after a crash or a power failure.
//!
//! Everything that is written goes the same way: into a temporary file in the same directory, synced, renamed, and the
//! directory synced. So a reader sees the old content or the new, and never a part of it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside its destination and takes its name with [`NewFile::commit`].
///
/// Dropped without that, it is removed, and what was at the destination is still there. A process that is killed leaves
/// a file behind whose name ends in `.tmp`.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    beside: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Creates the temporary file for `path`.
    ///
    /// # Errors
    /// The file cannot be created, for example because its directory does not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        // Two processes may build the same file at once, each in a temporary file of its own.
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        Ok(Self { file: File::create(&beside)?, beside, path: path.to_owned() })
    }

    /// The open file, for writing and seeking: `&File` implements both.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and moves it to its destination, whose old content it replaces.
    ///
    /// # Errors
    /// The disk refuses; what was at the destination is then still there, or already replaced as a whole.
    pub fn commit(self) -> io::Result<()> {
        self.commit_to(&self.path)
    }

    /// As [`Self::commit`], to another place in the same directory, for content that is of use although it is not complete.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_to(&self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, path)?;
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => sync_directory(dir),
            _ => sync_directory(Path::new(".")),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `commit` there is nothing to remove. Before it, the error that led here matters more than this one.
        let _ = fs::remove_file(&self.beside);
    }
}

/// Writes a small file at once, and replaces what is at `path`.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::commit`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = NewFile::create(path)?;
    new.file().write_all(content)?;
    new.commit()
}

/// Makes the names in a directory durable, such as that of a file that was just renamed. Does nothing on Windows, which
/// cannot open a directory for that.
///
/// # Errors
/// The directory cannot be opened, or the disk fails.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn a_file_that_is_not_committed_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        replace(&path, b"old").unwrap();
        let new = NewFile::create(&path).unwrap();
        new.file().write_all(b"half").unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.json"]);
        assert!(replace(&dir.path().join("no/such/file"), b"").is_err());
    }
}
