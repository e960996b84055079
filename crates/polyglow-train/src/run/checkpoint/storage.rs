//! Replacing a directory by a finished one, and links to directories.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use super::remove_directory;

use polyglow_predict::error::Result;

/// The ending of the name of a directory that is being written.
pub(super) const UNFINISHED: &str = ".tmp";
/// The ending of the name of a directory that is being replaced, where that takes more than one step.
pub(super) const REPLACED: &str = ".old";

/// Returns `path` with an ending: a path in the same directory.
pub(super) fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Moves the directory `finished` to `path`, and removes the one that was there.
///
/// If the system can exchange two directories, there is one at `path` at every moment.
///
/// # Errors
/// Something cannot be moved; what was at `path` is still there then.
pub(super) fn replace(finished: &Path, path: &Path) -> Result<()> {
    if !path.exists() {
        fs::rename(finished, path)?;
    } else if exchange(finished, path).is_ok() {
        // A failure here is harmless: the rest is removed before the next checkpoint is written.
        let _ = remove_directory(finished);
    } else {
        let aside = sibling(path, REPLACED);
        remove_directory(&aside)?;
        fs::rename(path, &aside)?;
        if let Err(error) = fs::rename(finished, path) {
            fs::rename(&aside, path)?;
            return Err(error.into());
        }
        let _ = remove_directory(&aside);
    }
    Ok(())
}

/// Cleans up after a killed process: removes unfinished directories in `dir`, and brings back those
/// that it was about to replace. Only directories whose names `ours` accepts are touched.
///
/// # Errors
/// Something cannot be read, moved or removed.
pub(super) fn tidy(dir: &Path, ours: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str);
        let name = name.unwrap_or_default().to_owned();
        if name.strip_suffix(UNFINISHED).is_some_and(&ours) {
            remove_directory(&path)?;
        } else if let Some(replaced) = name.strip_suffix(REPLACED)
            && ours(replaced)
        {
            let old = dir.join(replaced);
            if old.exists() {
                remove_directory(&path)?;
            } else {
                fs::rename(&path, &old)?;
            }
        }
    }
    Ok(())
}

/// Makes a link at `path` to `target` in the same directory.
///
/// If there are no links, as on a disk formatted for Windows, and on Windows itself, which by
/// default lets only administrators make them, it is a file that holds the name.
///
/// # Errors
/// Neither can be written.
pub(super) fn point(path: &Path, target: &str) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::symlink(target, path).is_ok() {
        return Ok(());
    }
    let mut file = fs::File::create(path)?;
    file.write_all(target.as_bytes())?;
    file.sync_all()
}

/// Follows a file that [`point`] wrote in place of a link; returns other paths as they are. Only a
/// name in the same directory is followed: a file with a longer path is no link of ours.
pub(super) fn follow(path: &Path) -> Cow<'_, Path> {
    // Names are short; a file of weights that a user takes for a checkpoint is not.
    let metadata = path.metadata();
    let may_be_link = metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() < 256);
    if may_be_link && let Ok(target) = fs::read_to_string(path) {
        let mut components = Path::new(target.trim_end()).components();
        if let (Some(Component::Normal(name)), None) = (components.next(), components.next()) {
            return path.with_file_name(name).into();
        }
    }
    path.into()
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn exchange(left: &Path, right: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn exchange(_left: &Path, _right: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with one file, named after it.
    fn make(path: &Path, content: &str) {
        fs::create_dir(path).expect("it can be made");
        fs::write(path.join("file"), content).expect("it can be written");
    }

    fn content(path: &Path) -> String {
        fs::read_to_string(path.join("file")).expect("it is there")
    }

    #[test]
    fn a_directory_takes_the_place_of_another_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let [new, old] = ["average.tmp", "average"].map(|name| dir.path().join(name));
        make(&new, "first");
        replace(&new, &old).expect("it can be moved");
        make(&new, "second");
        replace(&new, &old).expect("it can be exchanged");
        assert_eq!(content(&old), "second");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn two_directories_change_places() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let [left, right] = ["left", "right"].map(|name| dir.path().join(name));
        make(&left, "left");
        make(&right, "right");
        exchange(&left, &right).expect("Linux can");
        assert_eq!(
            (content(&left), content(&right)),
            ("right".to_owned(), "left".to_owned())
        );
    }

    #[test]
    fn a_file_with_a_name_stands_in_for_a_link() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let [checkpoint, last] = ["step-2", "last"].map(|name| dir.path().join(name));
        make(&checkpoint, "two");
        fs::write(&last, "step-2").expect("it can be written");
        assert_eq!(follow(&last), checkpoint);
        assert_eq!(follow(&checkpoint), checkpoint);
        for elsewhere in ["../step-2", "/step-2", "..", "", "step-2/file"] {
            fs::write(&last, elsewhere).expect("it can be written");
            assert_eq!(follow(&last), last, "{elsewhere}");
        }
        fs::remove_file(&last).expect("it is there");
        point(&last, "step-2").expect("it can be made");
        assert_eq!(content(&follow(&last)), "two");
    }

    #[test]
    fn what_was_being_replaced_comes_back_and_what_was_unfinished_goes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        make(&path("step-1.old"), "one");
        make(&path("step-2.old"), "old two");
        make(&path("step-2"), "two");
        make(&path("step-3.tmp"), "half of three");
        make(&path("average.tmp"), "another process");
        tidy(dir.path(), |name| name.starts_with("step-")).expect("it can be read");
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .expect("it is there")
            .map(|entry| entry.expect("it is there").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["average.tmp", "step-1", "step-2"]);
        assert_eq!(
            (content(&path("step-1")), content(&path("step-2"))),
            ("one".to_owned(), "two".to_owned())
        );
    }
}
