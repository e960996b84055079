//! Files that are either complete or absent, even after a crash or a power failure.
//!
//! Everything that is written goes the same way: into a temporary file in the same directory,
//! synced, renamed, and the directory synced. So a reader sees the old content or the new, and
//! never a part of it. [`replace`] is for files of our own, [`write()`] for output to a path that a
//! user gives, which may be a link or a pipe.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside its destination and takes its name with [`NewFile::commit`].
///
/// Dropped without that, it is removed, and what was at the destination is still there. A process
/// that is killed leaves a file behind whose name ends in `.tmp`.
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
        Ok(Self {
            file: File::create(&beside)?,
            beside,
            path: path.to_owned(),
        })
    }

    /// The open file, for writing and seeking: `&File` implements both.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and moves it to its destination, whose old content it replaces.
    ///
    /// # Errors
    /// The disk refuses; what was at the destination is then still there, or already replaced as a
    /// whole.
    pub fn commit(self) -> io::Result<()> {
        self.commit_to(&self.path)
    }

    /// As [`Self::commit`], without a sync: after a power failure the file may be empty. For files
    /// of which there are thousands and that can be made again.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_without_sync(self) -> io::Result<()> {
        fs::rename(&self.beside, &self.path)
    }

    /// As [`Self::commit`], to another place in the same directory, for content that is of use
    /// although it is not complete.
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
        // After `commit` there is nothing to remove. Before it, the error that led here matters
        // more than this one.
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

/// Writes the output of a command to a path that a user gives: as a whole, or not at all.
///
/// As [`write_with`].
///
/// # Errors
/// As [`write_with`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, |out| out.write_all(content))
}

/// Writes what `fill` writes to a path that a user gives, as a whole or not at all, and returns
/// what `fill` returns.
///
/// A regular file is replaced when its new content is complete and on the disk, and keeps its
/// permissions; of a link, that is the file that it leads to. What is no regular file, such as a
/// pipe or `/dev/stdout`, is written directly.
///
/// # Errors
/// Those of `fill`; the disk refuses. What was at `path` is then still there.
pub fn write_with<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let Some(destination) = regular_file(path)? else {
        let mut out = BufWriter::new(
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)?,
        );
        let filled = fill(&mut out)?;
        out.flush()?;
        return Ok(filled);
    };
    let new = NewFile::create(&destination)?;
    let mut out = BufWriter::new(new.file());
    let filled = fill(&mut out)?;
    out.flush()?;
    drop(out);
    if let Ok(old) = fs::metadata(&destination) {
        new.file().set_permissions(old.permissions())?;
    }
    new.commit()?;
    Ok(filled)
}

/// The file that `path` names or leads to, which may not be there yet; `None` if it is no regular
/// file.
fn regular_file(path: &Path) -> io::Result<Option<PathBuf>> {
    // What a shell opened as `/dev/stdout` must stay the file that it is, even where that is a
    // regular one.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Ok(None);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => path.canonicalize().map(Some),
        Ok(_) => Ok(None),
        Err(_) if path.is_symlink() => Ok(None),
        Err(_) => Ok(Some(path.to_owned())),
    }
}

/// Makes the names in a directory durable, such as that of a file that was just renamed. Does
/// nothing on Windows, which cannot open a directory for that.
///
/// # Errors
/// The directory cannot be opened, or the disk fails.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
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

    #[test]
    fn output_that_fails_leaves_the_old_file_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |out| {
            out.write_all(&vec![b'x'; 1 << 20])?;
            Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["page.html"]);
    }

    #[cfg(unix)]
    #[test]
    fn output_goes_through_links_keeps_permissions_and_is_written_into_pipes() {
        use std::io::Read;
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let [file, link, dangling, pipe] =
            ["file", "link", "dangling", "pipe"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        std::os::unix::fs::symlink("target", &dangling).unwrap();
        write(&dangling, b"made").unwrap();
        assert!(dangling.is_symlink());
        assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"made");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(write(dir.path(), b"").is_err(), "a directory is no file");
    }
}
