//! The file of `--output`: it appears when it is complete, so that it may be one of the inputs, and what an earlier
//! command wrote there is kept until there is something to put in its place.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::failure::with_hint;

/// A file that is written beside its place.
pub(super) struct OutputFile {
    path: PathBuf,
    /// None where the output is no regular file, such as a pipe or `/dev/null`, which is written directly.
    partial: Option<PathBuf>,
}

impl OutputFile {
    /// # Errors
    /// `path` is a directory.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        ensure!(!path.is_dir(), "cannot write `{}`: it is a directory", path.display());
        // Through a link, the file behind it is meant.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let beside = || {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            PathBuf::from(name)
        };
        let partial = (!path.exists() || path.is_file()).then(beside);
        Ok(Self { path, partial })
    }

    /// # Errors
    /// The file cannot be made.
    pub(super) fn writer(&self) -> anyhow::Result<Box<dyn Write>> {
        let path = self.partial.as_ref().unwrap_or(&self.path);
        let file = match self.partial {
            Some(_) => File::create(path),
            None => File::options().write(true).open(path),
        };
        Ok(Box::new(file.with_context(|| format!("cannot write `{}`", path.display()))?))
    }

    /// Says where the lines are that were finished before an error.
    pub(super) fn keep(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.partial {
            Some(partial) => {
                with_hint(error, format!("the lines before that are translated in `{}`", partial.display()))
            }
            None => error,
        }
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// It cannot be moved.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Self { path, partial } = self;
        partial.map_or(Ok(()), |partial| {
            fs::rename(&partial, &path).with_context(|| format!("cannot put `{}` in its place", partial.display()))
        })
    }
}
