//! The lock of a run's directory, which prevents concurrent trainings, also from several machines if
//! their file system locks for all of them, as NFS does.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use polyglow_predict::error::{Context, Result, failed, with_hint};

/// The name of the file that is locked. It names the process that trains, or trained last.
pub(super) const LOCK: &str = "lock";

/// Keeps other trainings out of a run's directory. The operating system releases it when the process
/// ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the directory `root`.
    ///
    /// # Errors
    /// Another process trains in it: the message names that; or the file cannot be written.
    pub(super) fn take(root: &Path) -> Result<Self> {
        let path = root.join(LOCK);
        match open_and_lock(&path) {
            Ok(mut file) => {
                write_holder(&mut file).with_context(|| cannot_lock(&path))?;
                Ok(Self { file, path })
            }
            Err(TryLockError::WouldBlock) => {
                // Windows lets no one read a file that is locked.
                let holder = fs::read_to_string(&path)
                    .map_or("another process".to_owned(), |text| named(&text, &host()));
                let error = failed!("`{}` is in use: {holder} trains there", root.display());
                Err(with_hint(
                    error,
                    "stop that one first, with Ctrl-C or `kill`, or give another directory",
                ))
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| cannot_lock(&path)),
        }
    }

    /// Returns whether the file in the directory is still the one that was locked, and not removed
    /// or that of another training.
    pub fn is_held(&self) -> bool {
        #[cfg(unix)]
        {
            let current = fs::metadata(&self.path).map(|metadata| identity(&metadata));
            let locked = self.file.metadata().map(|metadata| identity(&metadata));
            current.is_ok_and(|current| locked.is_ok_and(|locked| current == locked))
        }
        #[cfg(not(unix))]
        {
            // Files have no number to compare here.
            self.file.metadata().is_ok() && self.path.exists()
        }
    }
}

fn cannot_lock(path: &Path) -> String {
    format!("cannot lock `{}`", path.display())
}

fn open_and_lock(path: &Path) -> Result<File, TryLockError> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

/// Writes this process and its machine into a lock file: `12 on HOST`.
fn write_holder(file: &mut File) -> io::Result<()> {
    let holder = format!("{} on {}\n", std::process::id(), host());
    // Shortened after the write and not before: a run is recognized by this file even if the
    // process is killed in between.
    file.write_all(holder.as_bytes())?;
    file.set_len(holder.len() as u64)
}

/// Returns the numbers that identify a file, whatever its path.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Returns whether there is a lock file at `path` that a training wrote: `12 on HOST`. Trainings of
/// earlier versions wrote the number alone, as other programs do, too; it counts only next to a
/// config.
pub(super) fn is_lock(path: &Path) -> bool {
    match fs::read_to_string(path) {
        Ok(text) => {
            let text = text.trim_end();
            let (id, host) = text.split_once(" on ").unwrap_or((text, ""));
            id.parse::<u32>().is_ok()
                && (!host.is_empty() || path.with_file_name("config.toml").is_file())
        }
        // Windows lets no one read a file that is locked.
        Err(_) => cfg!(windows) && path.is_file(),
    }
}

/// Describes the process that a lock file names, `12 on a`, with its machine if that is not `here`.
fn named(text: &str, here: &str) -> String {
    let text = text.trim();
    let holder = text
        .strip_suffix(here)
        .and_then(|text| text.strip_suffix(" on "))
        .unwrap_or(text);
    format!("process {holder}")
}

/// Returns the name of this machine.
fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_machine_is_named_with_it() {
        assert_eq!(named("12 on a\n", "a"), "process 12");
        assert_eq!(named("12 on a\n", "b"), "process 12 on a");
        assert_eq!(named("12\n", "b"), "process 12", "as it was written once");
    }
}
