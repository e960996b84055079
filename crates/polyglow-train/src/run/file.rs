//! Small files that are there whole or not at all, also after a power failure.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Puts a file with this content in the place of what is at `path`: written beside it, synced, and renamed.
///
/// # Errors
/// It cannot be written; what was there is still there then.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or(Ok(()), sync_directory)
}

/// Has the disk confirm the names in a directory, where the system knows how to.
///
/// # Errors
/// The disk fails.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
