//! One training in a directory at a time, also from several machines, if their file system locks
//! for all of them, as NFS does.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use polyglow_predict::error::{Context, Result, failed, with_hint};

/// The name of the file that is locked, which says who trains or trained last.
pub(super) const LOCK: &str = "lock";

/// Keeps other trainings out of a run's directory; the operating system lets go of it when the
/// process ends.
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
        let failed = || format!("cannot lock `{}`", path.display());
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Windows lets nobody read a file that is locked.
                let holder = fs::read_to_string(&path)
                    .map_or("another process".to_owned(), |text| named(&text, &host()));
                let error = failed!("`{}` is in use: {holder} trains there", root.display());
                return Err(with_hint(
                    error,
                    "stop that one first, with Ctrl-C or `kill`, or give another directory",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
        let holder = format!("{} on {}\n", std::process::id(), host());
        // It is never empty in between, so that a run is known by it even if this process is killed
        // here.
        let write = file
            .write_all(holder.as_bytes())
            .and_then(|()| file.set_len(holder.len() as u64));
        write.with_context(failed)?;
        Ok(Self { file, path })
    }

    /// Whether the file in the directory is still the one that was locked, and not gone or somebody
    /// else's.
    pub fn is_held(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let (there, ours) = (
                fs::metadata(&self.path).map(identity),
                self.file.metadata().map(identity),
            );
            there.is_ok_and(|there| ours.is_ok_and(|ours| there == ours))
        }
        #[cfg(not(unix))]
        {
            // Files have no number to compare here.
            self.file.metadata().is_ok() && self.path.exists()
        }
    }
}

/// Whether there is a lock file at `path` that a training wrote: `12 on HOST`. Trainings of earlier
/// versions wrote the number alone, as other programs do, too; it counts beside a config.
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

/// The process that a lock file names, `12 on a`, with its machine if that is not `here`.
fn named(text: &str, here: &str) -> String {
    let text = text.trim();
    let holder = text
        .strip_suffix(here)
        .and_then(|text| text.strip_suffix(" on "))
        .unwrap_or(text);
    format!("process {holder}")
}

/// The name of this machine.
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
