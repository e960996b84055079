//! Files that are either complete or absent, even after a crash or a power failure.
//!
//! Everything that is written goes the same way: into a temporary file in the same directory,
//! synced, renamed, and the directory synced. So a reader sees the old content or the new, and
//! never a part of it. [`replace`] is for files of our own, [`write()`] for output to a path that a
//! user gives, which may be a link or a pipe.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Whether two paths lead to the same file.
pub fn is_same(left: &Path, right: &Path) -> bool {
    let [left_path, right_path] = [left, right].map(Path::canonicalize);
    left == right || left_path.is_ok_and(|left| right_path.is_ok_and(|right| left == right))
}

/// Links that a path leads through at most, as on Linux.
const MOST_LINKS: usize = 40;

/// A temporary file next to its destination, whose name it takes with [`NewFile::commit`].
///
/// Dropped without that, it is removed, and the destination keeps its content. A process that is
/// killed leaves a file behind whose name ends in `.tmp`.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// The path of the temporary file.
    temporary: PathBuf,
    /// The path of the destination.
    path: PathBuf,
}

impl NewFile {
    /// Creates the temporary file for `path`.
    ///
    /// # Errors
    /// The file cannot be created, for example because its directory does not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        // In the same directory, because a rename does not cross file systems. Two processes may
        // build the same file at once, each in a temporary file of its own.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        Ok(Self {
            file: File::create(&temporary)?,
            temporary,
            path: path.to_owned(),
        })
    }

    /// The open file, for writing and seeking: `&File` implements both, and so does this type.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and moves it to its destination, whose old content it replaces.
    ///
    /// # Errors
    /// The disk refuses; the destination then has its old content, or already the whole new one.
    pub fn commit(self) -> io::Result<()> {
        self.commit_to(&self.path)
    }

    /// Moves the file to its destination as [`Self::commit`] does, but without a sync: after a
    /// power failure the file may be empty. For files of which there are thousands and that can be
    /// made again.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_without_sync(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }

    /// Moves the file as [`Self::commit`] does, but to another path in the same directory, for
    /// content that is of use although it is not complete.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_to(&self, path: &Path) -> io::Result<()> {
        // Content before name: after a crash the new name must not lead to an empty file.
        self.file.sync_all()?;
        fs::rename(&self.temporary, path)?;
        sync_directory(directory(path))
    }

    /// Writes the content into the file at `path`, which cannot be replaced.
    fn copy_into(&self, path: &Path) -> io::Result<()> {
        let mut content = File::open(&self.temporary)?;
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        io::copy(&mut content, &mut file)?;
        file.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After `commit` there is nothing to remove. Before it, the error that led here matters
        // more than this one.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Removes the temporary files that killed processes left in a directory: `NAME.PID.tmp`, of each
/// `NAME` that `is_ours` accepts. A directory that does not exist has none.
///
/// No other process may be writing such a file.
///
/// # Errors
/// The directory cannot be read, or a file cannot be removed.
pub fn remove_unfinished(dir: &Path, is_ours: impl Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let destination = name.to_str().and_then(destination_name);
        if destination.is_some_and(&is_ours) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The name that an unfinished file was to get: `a.json` from `a.json.12.tmp`.
fn destination_name(unfinished: &str) -> Option<&str> {
    let (name, process) = unfinished.strip_suffix(".tmp")?.rsplit_once('.')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(name)
}

/// Writes a small file at once, in place of any file at `path`.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::commit`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = NewFile::create(path)?;
    new.file().write_all(content)?;
    new.commit()
}

/// Writes the output of a command to a path that a user gives, as a whole or not at all: see
/// [`write_with`].
///
/// # Errors
/// As [`write_with`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, |out| out.write_all(content))
}

/// Writes the output of `fill` to a path that a user gives, as a whole or not at all, and returns
/// the result of `fill`.
///
/// A regular file is replaced when its new content is complete and on the disk, and keeps its
/// permissions; of a link, that is the file that it leads to. What is no regular file, such as a
/// pipe or `/dev/stdout`, is written directly, and so is a file that can be written but not
/// replaced, for example in a directory that may not be written to.
///
/// # Errors
/// `fill` fails, or the disk refuses. The file at `path` then keeps its old content, unless it is
/// written directly.
pub fn write_with<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let Some(destination) = regular_file(path) else {
        return write_directly(path, fill);
    };
    let new = match NewFile::create(&destination) {
        Err(error) if forbids_replacing(&error) => return write_directly(&destination, fill),
        new => new?,
    };
    let filled = fill_buffered(new.file(), fill)?;
    if let Ok(old) = fs::metadata(&destination) {
        new.file().set_permissions(old.permissions())?;
    }
    match new.commit_to(&destination) {
        Err(error) if forbids_replacing(&error) => new.copy_into(&destination)?,
        committed => committed?,
    }
    Ok(filled)
}

/// Writes to a path as it is, which may be a pipe; a failure leaves a part of the output there.
fn write_directly<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let destination = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    fill_buffered(&destination, fill)
}

/// Lets `fill` write to a buffer in front of the file, and flushes it.
fn fill_buffered<T>(
    destination: &File,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let mut out = BufWriter::new(destination);
    let filled = fill(&mut out)?;
    out.flush()?;
    Ok(filled)
}

/// Whether an error means that a file cannot be replaced, although it may be writable itself: its
/// directory may not be written to, it is mounted by itself or belongs to another user in a
/// directory such as `/tmp`, or its name is too long for the longer name of a temporary file.
fn forbids_replacing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};

    matches!(
        error.kind(),
        PermissionDenied | ReadOnlyFilesystem | ResourceBusy | InvalidFilename
    )
}

/// Returns the regular file that `path` names or leads to, which may not exist yet. `None` if it is
/// something else, or a file that a process has open, such as `/dev/stdout`.
fn regular_file(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_descriptor(&path) {
            return None;
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                path = directory(&path).join(fs::read_link(&path).ok()?);
            }
            Ok(metadata) => return metadata.is_file().then_some(path),
            Err(_) => return Some(path),
        }
    }
    None
}

/// Whether a path names an open file of a process, as `/proc/self/fd/1` does. A file that a shell
/// has opened must not be replaced, even if it is a regular one.
fn is_descriptor(path: &Path) -> bool {
    let Ok(directory) = directory(path).canonicalize() else {
        return false;
    };
    directory.ends_with("fd") && (directory.starts_with("/proc") || directory.starts_with("/dev"))
}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
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

    #[test]
    fn only_unfinished_files_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = [
            "a.json.tmp",
            "a.json.x1.tmp",
            "a.json.1.tmp.1",
            "a.json..tmp",
            "b.json.12.tmp",
        ];
        for name in kept.iter().chain(&["a.json.12.tmp", "a.json.7.tmp"]) {
            fs::write(dir.path().join(name), "half").unwrap();
        }
        fs::create_dir(dir.path().join("a.json.3.tmp")).unwrap();
        remove_unfinished(dir.path(), |name| name == "a.json").unwrap();
        remove_unfinished(&dir.path().join("missing"), |_| true).unwrap();
        let mut left = names(dir.path());
        left.sort_unstable();
        let mut expected = kept.map(str::to_owned).to_vec();
        expected.push("a.json.3.tmp".to_owned());
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_file_whose_name_leaves_no_room_for_a_longer_one_is_written_directly() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a".repeat(254));
        write(&path, b"old, and longer").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()).len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_files_are_written_directly_and_regular_ones_are_replaced_wherever_they_are() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        // In memory, below `/dev`.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("page.html");
        let old = File::create(&path).unwrap();
        let descriptor = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd()));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&descriptor, &link).unwrap();
        for (path, text) in [
            (&descriptor, "through a descriptor"),
            (&link, "through a link to it"),
        ] {
            write(path, text.as_bytes()).unwrap();
            assert_eq!(
                fs::read_to_string(dir.path().join("page.html")).unwrap(),
                text
            );
        }
        let inode = old.metadata().unwrap().ino();
        assert_eq!(
            fs::metadata(&path).unwrap().ino(),
            inode,
            "what is open stays the file that it is"
        );
        let failed = write_with(&path, |out| {
            out.write_all(&vec![b'x'; 1 << 20])?;
            Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "through a link to it");
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
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
        let around = dir.path().join("around");
        std::os::unix::fs::symlink("around", &around).unwrap();
        assert!(
            write(&around, b"").is_err() && around.is_symlink(),
            "a link to itself leads nowhere"
        );
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
