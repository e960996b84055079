//! The files that `polyglow clean` writes.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyglow_data::file::{self, NewFile};
use polyglow_data::pair::Pair;
use polyglow_data::pair_files::{PairFiles, PairFormat};
use polyglow_data::raw_bytes::without_raw_bytes;
use polyglow_view::cleaning::render;

use super::Report;
use super::mark::{Mark, clear_unfinished, remove_from};

/// The prefix of the names of files of pairs that stay.
pub(super) const STEM: &str = "train";
/// The file of the pairs that do not.
const REMOVED: &str = "removed.tsv";
/// The file of the pairs that stay and were repaired.
const REPAIRED: &str = "repaired.tsv";
/// The page of the report.
const PAGE: &str = "report.html";
/// The last file that is written: where it is, the others are complete.
const REPORT: &str = "report.json";
/// The files that are written, each under a temporary name until all are complete.
pub(in crate::commands) struct CleanFiles {
    dir: PathBuf,
    kept: PairFiles,
    removed: BufWriter<NewFile>,
    repaired: BufWriter<NewFile>,
    mark: Option<Mark>,
}

/// The languages of the sides and the form of the files to which pairs that stay are written.
pub(in crate::commands) struct Form<'a> {
    pub(in crate::commands) languages: &'a [String; 2],
    pub(in crate::commands) format: PairFormat,
}

impl Form<'_> {
    /// The names of all files.
    fn names(&self) -> Vec<String> {
        let mut names = self.format.file_names(STEM, self.languages());
        names.extend([REMOVED, REPAIRED, PAGE, REPORT].map(str::to_owned));
        names
    }

    fn languages(&self) -> [&str; 2] {
        self.languages.each_ref().map(String::as_str)
    }
}

impl CleanFiles {
    /// Makes sure that a directory is not there yet, or is empty. What a command has left in it that was
    /// ended is removed.
    ///
    /// # Errors
    /// As [`clear_unfinished`].
    pub(super) fn clear_unfinished(dir: &Path, form: &Form) -> anyhow::Result<()> {
        clear_unfinished(dir, &form.names(), REPORT)
    }

    /// Creates the files in a directory for which [`Self::clear_unfinished`] does, and marks it as
    /// unfinished until all of them are complete.
    ///
    /// # Errors
    /// As [`Self::clear_unfinished`]; the directory or a file cannot be made.
    pub(super) fn begin(dir: &Path, form: &Form) -> anyhow::Result<Self> {
        Self::clear_unfinished(dir, form)?;
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let mark = Mark::new(dir);
        let mark = mark.with_context(|| format!("cannot write into `{}`", dir.display()))?;
        Ok(Self {
            mark: Some(mark),
            ..Self::create(dir, form)?
        })
    }

    /// Returns whether a directory has the files, all of them.
    ///
    /// # Errors
    /// A mark that was left in it cannot be removed.
    pub(super) fn are_complete(dir: &Path) -> anyhow::Result<bool> {
        let are_complete = dir.join(REPORT).exists();
        if are_complete {
            remove_from(dir).with_context(|| format!("cannot clear `{}`", dir.display()))?;
        }
        Ok(are_complete)
    }

    /// Creates the files in a directory.
    ///
    /// # Errors
    /// The directory or a file cannot be made.
    pub(in crate::commands) fn create(dir: &Path, form: &Form) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let cannot = || format!("cannot write into `{}`", dir.display());
        let kept = PairFiles::create(dir, STEM, form.languages(), form.format);
        let table = |name| NewFile::create(&dir.join(name)).map(BufWriter::new);
        Ok(Self {
            dir: dir.to_owned(),
            kept: kept.with_context(cannot)?,
            removed: table(REMOVED).with_context(cannot)?,
            repaired: table(REPAIRED).with_context(cannot)?,
            mark: None,
        })
    }

    /// Writes a pair that stays.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn keep(&mut self, pair: &Pair) -> anyhow::Result<()> {
        let written = self.kept.write(pair);
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
        let [src, tgt] = columns(pair);
        let written = writeln!(self.removed, "{key}\t{file}:{line}\t{src}\t{tgt}");
        self.explain(written)
    }

    /// Writes a pair that stays as it was in the text and as it is now, with the names of its repairs.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn repair(
        &mut self,
        names: &str,
        file: &str,
        line: u64,
        [before, after]: [&Pair; 2],
    ) -> anyhow::Result<()> {
        let [[src, tgt], [new_src, new_tgt]] = [columns(before), columns(after)];
        let written = writeln!(
            self.repaired,
            "{names}\t{file}:{line}\t{src}\t{tgt}\t{new_src}\t{new_tgt}"
        );
        self.explain(written)
    }

    /// Gives all files their names, with the report beside them.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn commit(self, report: &Report) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(report)? + "\n";
        let page = render(&report.counts, &report.samples, &report.repaired_samples);
        let Self {
            dir,
            kept,
            removed,
            repaired,
            mark,
        } = self;
        let commit = |table: BufWriter<NewFile>| table.into_inner()?.commit();
        commit(removed)
            .and_then(|()| commit(repaired))
            .and_then(|()| kept.commit())
            .and_then(|()| file::replace(&dir.join(PAGE), page.as_bytes()))
            .and_then(|()| file::replace(&dir.join(REPORT), text.as_bytes()))
            .and_then(|()| mark.map_or(Ok(()), Mark::remove))
            .with_context(|| format!("cannot write into `{}`", dir.display()))
    }

    fn explain(&self, written: io::Result<()>) -> anyhow::Result<()> {
        written.with_context(|| format!("cannot write into `{}`", self.dir.display()))
    }
}

/// Returns the sides of a pair as columns of a table.
fn columns(pair: &Pair) -> [String; 2] {
    [&pair.src, &pair.tgt].map(|side| without_raw_bytes(side).replace('\t', " "))
}
