//! The files that `polyglow clean` writes.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use polyglow_data::file::{self, NewFile};
use polyglow_data::pair::Pair;
use polyglow_view::cleaning::render;

use super::Report;
use crate::failure::{usage, with_hint};

/// The last file that is written: where it is, the others are complete.
const REPORT: &str = "report.json";
/// A file that is there while the others are written, and no longer.
const UNFINISHED: &str = "unfinished";
/// What stands in it.
const UNFINISHED_TEXT: &str =
    "A command is writing text into this directory. If it was ended, give it again.\n";

/// The files that are written, each under a temporary name until all are complete.
pub(in crate::commands) struct CleanFiles {
    dir: PathBuf,
    src: BufWriter<NewFileWriter>,
    tgt: BufWriter<NewFileWriter>,
    removed: BufWriter<NewFileWriter>,
}

/// A new file as something to write to.
struct NewFileWriter(NewFile);

impl Write for NewFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.file().flush()
    }
}

impl CleanFiles {
    /// Makes sure that a directory is not there yet, or is empty. What an earlier command has left in it
    /// that was ended is removed.
    ///
    /// # Errors
    /// Something else is in it (exit code 2); it cannot be cleared.
    pub(super) fn make_room(dir: &Path, languages: &[String; 2]) -> anyhow::Result<()> {
        if is_unfinished(dir) {
            clear(dir, languages).with_context(|| format!("cannot clear `{}`", dir.display()))?;
        }
        check_free(dir)
    }

    /// Creates the files in a directory for which [`Self::make_room`] does, and marks it as unfinished
    /// until all of them are complete.
    ///
    /// # Errors
    /// As [`Self::make_room`]; the directory or a file cannot be made.
    pub(super) fn begin(dir: &Path, languages: &[String; 2]) -> anyhow::Result<Self> {
        Self::make_room(dir, languages)?;
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        file::replace(&dir.join(UNFINISHED), UNFINISHED_TEXT.as_bytes())
            .with_context(|| format!("cannot write into `{}`", dir.display()))?;
        Self::create(dir, languages)
    }

    /// Returns whether a directory has the files, all of them.
    pub(super) fn are_complete(dir: &Path) -> bool {
        dir.join(REPORT).exists()
    }

    /// Creates the files in a directory.
    ///
    /// # Errors
    /// The directory or a file cannot be made.
    pub(in crate::commands) fn create(
        dir: &Path,
        [src, tgt]: &[String; 2],
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let create = |name: String| {
            let path = dir.join(name);
            let file = NewFile::create(&path);
            let file = file.with_context(|| format!("cannot write `{}`", path.display()))?;
            anyhow::Ok(BufWriter::new(NewFileWriter(file)))
        };
        Ok(Self {
            dir: dir.to_owned(),
            src: create(format!("train.{src}"))?,
            tgt: create(format!("train.{tgt}"))?,
            removed: create("removed.tsv".to_owned())?,
        })
    }

    /// Writes a pair that stays.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn keep(&mut self, pair: &Pair) -> anyhow::Result<()> {
        let written =
            writeln!(self.src, "{}", pair.src).and_then(|()| writeln!(self.tgt, "{}", pair.tgt));
        self.explain(written)
    }

    /// Writes a pair as it was in the text, with the reason for which it is removed.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn remove(
        &mut self,
        key: &str,
        file: &str,
        line: u64,
        pair: &Pair,
    ) -> anyhow::Result<()> {
        let [src, tgt] = [&pair.src, &pair.tgt].map(|side| side.replace('\t', " "));
        let written = writeln!(self.removed, "{key}\t{file}:{line}\t{src}\t{tgt}");
        self.explain(written)
    }

    /// Gives all files their names, with the report beside them.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn commit(self, report: &Report) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(report)? + "\n";
        let page = render(&report.counts, &report.samples);
        let dir = self.dir.clone();
        let commit =
            |file: BufWriter<NewFileWriter>| -> io::Result<()> { file.into_inner()?.0.commit() };
        commit(self.removed)
            .and_then(|()| commit(self.src))
            .and_then(|()| commit(self.tgt))
            .and_then(|()| file::replace(&dir.join("report.html"), page.as_bytes()))
            .and_then(|()| file::replace(&dir.join(REPORT), text.as_bytes()))
            .and_then(|()| remove_if_there(&dir.join(UNFINISHED)))
            .with_context(|| format!("cannot write into `{}`", dir.display()))
    }

    fn explain(&self, written: io::Result<()>) -> anyhow::Result<()> {
        written.with_context(|| format!("cannot write into `{}`", self.dir.display()))
    }
}

/// Makes sure that a directory is not there yet, or is empty.
///
/// # Errors
/// Something is in it (exit code 2).
pub(super) fn check_free(dir: &Path) -> anyhow::Result<()> {
    let is_taken = fs::read_dir(dir).map_or(dir.exists(), |mut files| files.next().is_some());
    if !is_taken {
        return Ok(());
    }
    let error = anyhow!("`{}` is there already", dir.display());
    let hint = "give another directory with `--out`, or remove it";
    Err(with_hint(usage(error), hint))
}

/// Whether an earlier command has marked a directory, and was ended before it was done.
fn is_unfinished(dir: &Path) -> bool {
    // Another file of that name is no mark.
    fs::read_to_string(dir.join(UNFINISHED)).is_ok_and(|text| text == UNFINISHED_TEXT)
}

/// Removes what a command has left in a directory that was ended; nothing else was in it when that
/// began.
fn clear(dir: &Path, [src, tgt]: &[String; 2]) -> io::Result<()> {
    let names = [
        &format!("train.{src}"),
        &format!("train.{tgt}"),
        "removed.tsv",
        "report.html",
        REPORT,
        // Last: as long as it is there, the same command continues.
        UNFINISHED,
    ];
    file::remove_unfinished(dir, |name| names.contains(&name))?;
    for name in names {
        remove_if_there(&dir.join(name))?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
