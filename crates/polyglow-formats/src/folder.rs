//! Directories that are complete or absent, and files that are read within limits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use polyglow_data::file::sync_directory;
use polyglow_predict::error::{
    Context, Result, TrainError, bail, ensure, failed, usage, with_hint,
};
use serde::Serialize;
use serde_json::Value;

/// The largest JSON file that is read, in bytes: a vocabulary of millions of tokens fits.
const MOST_JSON: u64 = 1 << 28;

/// A directory that is written under a temporary name next to its destination, and takes its name
/// with [`Folder::commit`]; dropped without that, it is removed.
#[derive(Debug)]
pub(crate) struct Folder {
    temporary: PathBuf,
    destination: PathBuf,
}

impl Folder {
    /// Creates the temporary directory for `path`, which must not exist or be empty.
    ///
    /// # Errors
    /// There is something at `path` already (exit code 2), or the directory cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() && !is_empty(path) {
            let error = failed!("`{}` is there already", path.display());
            return Err(with_hint(
                usage(error),
                "give another directory, or remove it",
            ));
        }
        // Components leave out a `/` at the end, behind which the suffix would be a file in it.
        let mut temporary = path.components().collect::<PathBuf>().into_os_string();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        create_anew(&temporary)
            .with_context(|| format!("cannot make `{}`", temporary.display()))?;
        Ok(Self {
            temporary,
            destination: path.to_owned(),
        })
    }

    /// The path of the temporary directory, to write files into.
    pub(crate) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Gives the directory its name.
    ///
    /// # Errors
    /// The disk refuses, or something has taken the name meanwhile.
    pub(crate) fn commit(self) -> Result<()> {
        self.rename()
            .with_context(|| format!("cannot write `{}`", self.destination.display()))
    }

    fn rename(&self) -> io::Result<()> {
        sync_directory(&self.temporary)?;
        fs::rename(&self.temporary, &self.destination)?;
        match self.destination.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => sync_directory(dir),
            _ => sync_directory(Path::new(".")),
        }
    }
}

/// Whether a path is that of an empty directory.
fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Creates a directory in place of what a process with the same id may have left there.
fn create_anew(dir: &Path) -> io::Result<()> {
    if dir.symlink_metadata().is_ok() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After `commit` there is nothing to remove. Before it, the error that led here matters
        // more than this one.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

/// Writes the file `name` into a directory.
///
/// # Errors
/// The disk refuses.
pub fn write_file(dir: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = dir.join(name);
    write_synced(&path, content).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Writes a file to the disk. Without the sync, a power failure after [`Folder::commit`] could leave
/// a directory with empty files.
fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Writes a value as the JSON file `name` into a directory.
///
/// # Errors
/// As [`write_file`].
pub(crate) fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    write_file(dir, name, text.as_bytes())
}

/// Reads a whole file, which may have `most` bytes.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more, by which a file that is too large is told from one that just fits.
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    ensure!(
        bytes.len() as u64 <= most,
        "`{}` has more than the {most} bytes that such a file may have",
        path.display()
    );
    Ok(bytes)
}

/// Reads a JSON file.
///
/// # Errors
/// It cannot be read, or is no JSON.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_slice(&read(path, MOST_JSON)?)
        .with_context(|| format!("`{}` is no JSON", path.display()))
}

/// Reads a JSON file, or returns `None` if there is no such file.
///
/// # Errors
/// As [`read_json`].
pub(crate) fn read_json_if_there(path: &Path) -> Result<Option<Value>> {
    if path.is_file() {
        read_json(path).map(Some)
    } else {
        Ok(None)
    }
}

/// The keys of a JSON file, read with errors that name the file and the key.
pub(crate) struct Keys<'a> {
    pub(crate) path: &'a Path,
    pub(crate) json: &'a Value,
}

impl Keys<'_> {
    fn wrong(&self, key: &str, expected: &str) -> TrainError {
        let path = self.path.display();
        let value = &self.json[key];
        failed!("`{path}`: `{key}` is {value}, where {expected} is wanted")
    }

    /// Returns a whole number.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn size(&self, key: &str) -> Result<usize> {
        let number = self.json[key]
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.wrong(key, "a whole number"))
    }

    /// Returns a text.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        self.json[key]
            .as_str()
            .ok_or_else(|| self.wrong(key, "a text"))
    }

    /// Returns true or false; the default where the key is missing or null.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match &self.json[key] {
            Value::Null => Ok(default),
            Value::Bool(value) => Ok(*value),
            _ => Err(self.wrong(key, "true or false")),
        }
    }

    /// Returns the size that two keys must agree on.
    ///
    /// # Errors
    /// They differ.
    pub(crate) fn same(&self, first: &str, second: &str) -> Result<usize> {
        let left = self.size(first)?;
        let right = self.size(second)?;
        if left != right {
            let path = self.path.display();
            bail!(
                "`{path}`: `{first}` is {left} and `{second}` {right}, but here both sides have one size"
            );
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_there_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("out");
        let folder = Folder::create(&path).expect("it can be made");
        write_file(folder.path(), "a", b"1").expect("it can be written");
        assert!(!path.exists());
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
        let folder = Folder::create(&path).expect("it can be made");
        write_file(folder.path(), "a", b"2").expect("it can be written");
        folder.commit().expect("it can be renamed");
        assert_eq!(read(&path.join("a"), 1).expect("it is there"), b"2");
        assert!(read(&path.join("a"), 0).is_err());
        assert_eq!(
            Folder::create(&path).expect_err("it is there").kind(),
            polyglow_predict::ErrorKind::Usage
        );
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }
}
