//! The mark of a directory into which a command writes, and that is not complete.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use polyglow_data::file;

use crate::failure::{usage, with_hint};

/// The name of the file that marks the directory.
const NAME: &str = "unfinished";
/// Its content.
const TEXT: &str =
    "A command writes into this directory. If it was ended, run it again: it starts over.\n";

/// Marks a directory as long as it is not complete. The operating system releases the lock on the file
/// when the process ends, however it ends.
pub(super) struct Mark {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Mark {
    /// Marks an empty directory.
    ///
    /// # Errors
    /// The file cannot be written or locked.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        file::replace(&path, TEXT.as_bytes())?;
        let file = File::open(&path)?;
        file.try_lock()?;
        Ok(Self { path, _file: file })
    }

    /// Removes the mark: the directory is complete.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn remove(self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// Removes the mark of a directory that is complete, if there is one: a command may have been ended just
/// before it would have done so.
///
/// # Errors
/// The disk refuses.
pub(super) fn remove_from(dir: &Path) -> io::Result<()> {
    if is_marked(dir) {
        remove(&dir.join(NAME))?;
    }
    Ok(())
}

/// Makes sure that a directory is not there yet, or is empty. Files with these `names` that a command
/// has left which was ended are removed, the `last` of which it would have written last.
///
/// # Errors
/// Something else is in it, or another process writes into it (exit code 2), and nothing is removed; it
/// cannot be read or cleared.
pub(super) fn clear_unfinished(dir: &Path, names: &[String], last: &str) -> anyhow::Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(taken(dir));
    }
    let cannot_clear = || format!("cannot clear `{}`", dir.display());
    file::remove_unfinished(dir, |name| name == NAME).with_context(cannot_clear)?;
    if !is_marked(dir) {
        return check_free(dir);
    }
    let mark = File::open(dir.join(NAME)).with_context(cannot_clear)?;
    match mark.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let error = anyhow!(
                "`{}` is in use: another process writes there",
                dir.display()
            );
            let hint = "stop that one first, or give another directory with `--out`";
            return Err(with_hint(usage(error), hint));
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(cannot_clear),
    }
    if dir.join(last).exists() {
        remove_from(dir).with_context(cannot_clear)?;
        return check_free(dir);
    }
    for entry in fs::read_dir(dir).with_context(cannot_clear)? {
        let name = entry.with_context(cannot_clear)?.file_name();
        let name = name.to_string_lossy();
        let is_part = |known: &String| name.starts_with(known.as_str()) && name.ends_with(".tmp");
        let is_ours = |known: &String| name == known.as_str() || is_part(known);
        if name != NAME && !names.iter().any(is_ours) {
            return Err(taken(dir));
        }
    }
    file::remove_unfinished(dir, |name| names.iter().any(|known| known == name))
        .with_context(cannot_clear)?;
    for name in names {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(cannot_clear);
            }
            _ => {}
        }
    }
    // Last: as long as it is there, the same command can be run again.
    remove(&dir.join(NAME)).with_context(cannot_clear)
}

/// Makes sure that a directory is not there yet, or is empty.
///
/// # Errors
/// Something is in it (exit code 2).
pub(super) fn check_free(dir: &Path) -> anyhow::Result<()> {
    let is_taken = fs::read_dir(dir).map_or(dir.exists(), |mut files| files.next().is_some());
    if is_taken { Err(taken(dir)) } else { Ok(()) }
}

fn taken(dir: &Path) -> anyhow::Error {
    let error = anyhow!("`{}` is there already", dir.display());
    let hint = "give another directory with `--out`, or remove it";
    with_hint(usage(error), hint)
}

/// Whether a command has marked a directory: another file of that name is no mark.
fn is_marked(dir: &Path) -> bool {
    fs::read_to_string(dir.join(NAME)).is_ok_and(|text| text == TEXT)
}

/// Removes a mark, also after a power failure.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    file::sync_directory(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["train.en", "report.json"].map(str::to_owned).to_vec()
    }

    fn files(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_command_has_left_that_was_ended_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("room");
        let clear = || clear_unfinished(dir.path(), &names(), "report.json");
        // Before it has marked the directory, and after that.
        write("unfinished.77.tmp", "A comm");
        clear().expect("it is free");
        write(NAME, TEXT);
        write("train.en", "half");
        write("report.json.77.tmp", "half");
        clear().expect("it is free");
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn nothing_is_removed_where_something_else_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("room");
        let refuse = |part: &str| {
            let error = clear_unfinished(dir.path(), &names(), "report.json");
            let message = error.expect_err("it is taken").to_string();
            assert!(message.contains(part), "{message}");
        };
        write(NAME, TEXT);
        write("train.en", "half");
        write("train.fr", "mine");
        refuse("is there already");
        assert_eq!(files(dir.path()), ["train.en", "train.fr", NAME]);
        fs::remove_file(dir.path().join("train.fr")).expect("it is there");
        // Another process holds the lock.
        let mark = Mark::new(dir.path()).expect("it is marked");
        refuse("is in use");
        assert_eq!(files(dir.path()), ["train.en", NAME]);
        drop(mark);
        // Complete, but for the mark.
        write("report.json", "{}");
        refuse("is there already");
        assert_eq!(files(dir.path()), ["report.json", "train.en"]);
        // A file of another content is no mark.
        write(NAME, "notes of my own");
        refuse("is there already");
        assert_eq!(files(dir.path()).len(), 3);
    }
}
