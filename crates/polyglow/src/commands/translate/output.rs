//! The file of `--output`: it is replaced only when the new one is complete, so that it may be one of the inputs, and a
//! failed command leaves the old file alone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use fs_err::{File, OpenOptions};
use polyglow_data::file::NewFile;

use crate::failure::with_hint;

/// Where translations go.
pub(super) enum Output {
    Stdout,
    /// Not a regular file but a pipe, `/dev/null` or the like; it is written directly.
    Special(PathBuf),
    /// A file that is written next to its final path.
    File {
        path: PathBuf,
        new: NewFile,
    },
}

impl Output {
    /// Without a path, or with `-`, stdout.
    ///
    /// # Errors
    /// `path` is a directory, or its directory is not writable.
    pub(super) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let is_stdout = |path: &&Path| *path == Path::new("-") || *path == Path::new("/dev/stdout");
        let Some(path) = path.filter(|path| !is_stdout(path)) else { return Ok(Self::Stdout) };
        if path.is_dir() {
            let error = anyhow!("cannot write `{}`: it is a directory", path.display());
            return Err(with_hint(error, "give the name of a file in it"));
        }
        // A link stands for the file that it points to.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error).with_context(|| format!("cannot write `{}`", path.display())),
        };
        if path.exists() && !path.is_file() {
            return Ok(Self::Special(path));
        }
        let failed = || format!("cannot write `{}`", path.display());
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !dir.exists() {
            let error = anyhow!("cannot write `{}`: there is no directory `{}`", path.display(), dir.display());
            return Err(with_hint(error, format!("`mkdir -p {}` makes it", dir.display())));
        }
        let new = NewFile::create(&path).with_context(failed)?;
        if let Ok(old) = path.metadata() {
            new.file().set_permissions(old.permissions()).with_context(failed)?;
        }
        Ok(Self::File { path, new })
    }

    /// # Errors
    /// It cannot be opened.
    pub(super) fn writer(&self) -> anyhow::Result<Box<dyn Write>> {
        Ok(match self {
            Self::Stdout => Box::new(io::stdout().lock()),
            Self::Special(path) => Box::new(OpenOptions::new().write(true).open(path)?),
            Self::File { path, new } => Box::new(File::from_parts(new.file().try_clone()?, path)),
        })
    }

    /// Keeps the lines that were finished before an error, and says where they are.
    pub(super) fn keep(self, error: anyhow::Error) -> anyhow::Error {
        let Self::File { path, new } = self else { return error };
        let mut partial = path.into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        match new.commit_to(&partial) {
            Ok(()) => with_hint(error, format!("the lines translated before the error are in `{}`", partial.display())),
            Err(_) => error,
        }
    }

    /// Moves the file to its final path.
    ///
    /// # Errors
    /// It cannot be moved.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Self::File { path, new } = self {
            new.commit().with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}
