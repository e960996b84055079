//! Directories that are complete or absent, and files that are read within limits.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use polyglow_data::file::sync_directory;
use polyglow_predict::error::{Context, Result, bail, ensure, failed, usage, with_hint};
use serde::Serialize;
use serde_json::Value;

/// The largest file of JSON that is read: a vocabulary of millions of tokens fits.
const MOST_JSON: u64 = 1 << 28;

/// A directory that is written beside its destination and takes its name with [`Folder::commit`];
/// dropped without that, it is removed.
#[derive(Debug)]
pub(crate) struct Folder {
    beside: PathBuf,
    path: PathBuf,
}

impl Folder {
    /// Makes room for `path`.
    ///
    /// # Errors
    /// There is something at `path` already (exit code 2), or the directory cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if path.symlink_metadata().is_ok() && !is_empty() {
            let error = failed!("`{}` is there already", path.display());
            return Err(with_hint(
                usage(error),
                "give another directory, or remove it",
            ));
        }
        let mut beside = path.components().collect::<PathBuf>().into_os_string();
        beside.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(beside);
        let make = || -> Result<()> {
            if beside.symlink_metadata().is_ok() {
                fs::remove_dir_all(&beside)?;
            }
            Ok(fs::create_dir_all(&beside)?)
        };
        make().with_context(|| format!("cannot make `{}`", beside.display()))?;
        Ok(Self {
            beside,
            path: path.to_owned(),
        })
    }

    /// Where it is being written.
    pub(crate) fn place(&self) -> &Path {
        &self.beside
    }

    /// Gives the directory its name.
    ///
    /// # Errors
    /// The disk refuses, or something has taken the name meanwhile.
    pub(crate) fn commit(self) -> Result<()> {
        let put = || -> Result<()> {
            sync_directory(&self.beside)?;
            fs::rename(&self.beside, &self.path)?;
            match self.path.parent() {
                Some(dir) if !dir.as_os_str().is_empty() => sync_directory(dir)?,
                _ => sync_directory(Path::new("."))?,
            }
            Ok(())
        };
        put().with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After `commit` there is nothing to remove. Before it, the error that led here matters
        // more than this one.
        let _ = fs::remove_dir_all(&self.beside);
    }
}

/// Writes a file into a directory that is being made.
///
/// # Errors
/// The disk refuses.
pub(crate) fn write(dir: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = dir.join(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// As [`write`], of a value as JSON.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    write(
        dir,
        name,
        (serde_json::to_string_pretty(value)? + "\n").as_bytes(),
    )
}

/// The whole content of a file that is no larger than `most` bytes.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let context = || format!("cannot read `{}`", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .with_context(context)?;
    ensure!(
        bytes.len() as u64 <= most,
        "`{}` has more than the {most} bytes that such a file may have",
        path.display()
    );
    Ok(bytes)
}

/// The JSON in a file.
///
/// # Errors
/// It cannot be read, or is none.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_slice(&read(path, MOST_JSON)?)
        .with_context(|| format!("`{}` is no JSON", path.display()))
}

/// As [`read_json`], or none if there is no such file.
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

/// Keys of a JSON file, with errors that name the file and the key.
pub(crate) struct Keys<'a> {
    pub(crate) path: &'a Path,
    pub(crate) json: &'a Value,
}

impl Keys<'_> {
    fn wrong(&self, key: &str, wanted: &str) -> polyglow_predict::TrainError {
        let (path, found) = (self.path.display(), &self.json[key]);
        failed!("`{path}`: `{key}` is {found}, where {wanted} is wanted")
    }

    /// A whole number.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn size(&self, key: &str) -> Result<usize> {
        let number = self.json[key]
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.wrong(key, "a whole number"))
    }

    /// A text.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        self.json[key]
            .as_str()
            .ok_or_else(|| self.wrong(key, "a text"))
    }

    /// True or false; the default where it is missing or null.
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

    /// Makes sure that two sizes are one.
    ///
    /// # Errors
    /// They differ.
    pub(crate) fn same(&self, first: &str, second: &str) -> Result<usize> {
        let (left, right) = (self.size(first)?, self.size(second)?);
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
        write(folder.place(), "a", b"1").expect("it can be written");
        assert!(!path.exists());
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
        let folder = Folder::create(&path).expect("it can be made");
        write(folder.place(), "a", b"2").expect("it can be written");
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
