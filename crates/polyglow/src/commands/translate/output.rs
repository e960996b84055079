//! The file of `--output`: it is replaced only when the new one is complete, so that it may be one
//! of the inputs, and a failed command leaves the old file alone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use fs_err::{File, OpenOptions};
use polyglow_data::file::NewFile;

use super::TranslateArgs;
use super::partial::{Partial, place};
use crate::commands::check_output;
use crate::failure::{usage, with_hint};

/// The destination of translations.
pub(super) enum Output {
    Stdout,
    /// Not a regular file but a pipe, `/dev/null` or the like; it is written directly.
    Special(PathBuf),
    /// A file that is written next to its final path.
    File {
        path: PathBuf,
        new: NewFile,
    },
    /// A file of another name while it grows, which stays if the command is ended.
    Partial {
        path: PathBuf,
        at: PathBuf,
        partial: Partial,
    },
}

impl Output {
    /// Opens stdout without a path, or with `-`, and else the file. `decided_by` names everything
    /// that the output depends on, except for the input.
    ///
    /// # Errors
    /// The path is a directory, or its directory is not writable; or `--resume` is given with
    /// output that is no file (exit code 2).
    pub(super) fn create(args: &TranslateArgs, decided_by: &str) -> anyhow::Result<Self> {
        let Some(path) = args.output.as_deref().filter(|path| !is_stdout(path)) else {
            return if args.resume {
                Err(no_file())
            } else {
                Ok(Self::Stdout)
            };
        };
        check_output(path)?;
        // A link stands for the file that it points to.
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write `{}`", path.display()));
            }
        };
        if path.exists() && !path.is_file() {
            return if args.resume {
                Err(no_file())
            } else {
                Ok(Self::Special(path))
            };
        }
        if args.resume {
            let at = place(&path, decided_by);
            let partial = Partial::open(&at, args.format, args.n_best)?;
            return Ok(Self::Partial { path, at, partial });
        }
        let new =
            create_file(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self::File { path, new })
    }

    /// Counts the lines of the input that are translated in it already.
    pub(super) fn lines(&self) -> usize {
        if let Self::Partial { partial, .. } = self {
            partial.lines
        } else {
            0
        }
    }

    /// # Errors
    /// It cannot be opened.
    pub(super) fn writer(&self) -> anyhow::Result<Box<dyn Write>> {
        Ok(match self {
            Self::Stdout => Box::new(io::stdout().lock()),
            Self::Special(path) => Box::new(OpenOptions::new().write(true).open(path)?),
            Self::File { path, new } => Box::new(File::from_parts(new.file().try_clone()?, path)),
            Self::Partial { partial, .. } => Box::new(partial.writer()?),
        })
    }

    /// Keeps the lines that were finished before an error, and says where they are.
    pub(super) fn keep(self, error: anyhow::Error) -> anyhow::Error {
        match self {
            Self::File { path, new } => {
                let mut partial = path.into_os_string();
                partial.push(".partial");
                let partial = PathBuf::from(partial);
                match new.commit_to(&partial) {
                    Ok(()) => {
                        let partial = partial.display();
                        with_hint(
                            error,
                            format!("the lines translated before the error are in `{partial}`"),
                        )
                    }
                    Err(_) => error,
                }
            }
            Self::Partial { .. } => {
                with_hint(error, "the same command continues where the output ends")
            }
            Self::Stdout | Self::Special(_) => error,
        }
    }

    /// Moves the file to its final path.
    ///
    /// # Errors
    /// It cannot be moved.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File { path, new } => new
                .commit()
                .with_context(|| format!("cannot write `{}`", path.display())),
            Self::Partial { path, at, partial } => partial.finish(&at, &path),
            Self::Stdout | Self::Special(_) => Ok(()),
        }
    }
}

/// Whether a path of `--output` stands for standard output.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// The error of `--resume` for output that is no file.
fn no_file() -> anyhow::Error {
    usage(anyhow!(
        "`--resume` continues a file: give its name with `--output`"
    ))
}

/// Creates a file that replaces the one at `path`, with the same permissions.
fn create_file(path: &Path) -> io::Result<NewFile> {
    let new = NewFile::create(path)?;
    if let Ok(old) = path.metadata() {
        new.file().set_permissions(old.permissions())?;
    }
    Ok(new)
}
