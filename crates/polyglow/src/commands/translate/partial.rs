//! Going on with a translation that was ended before its time, where its output ends.

use std::fs::TryLockError;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use fs_err::{File, OpenOptions};

use super::{Format, PORTION};
use crate::failure::with_hint;

/// Output that grows where a person finds it, so that even a killed command leaves what it has
/// written.
pub(super) struct Partial {
    file: File,
    /// Lines of the input that are translated in it.
    pub(super) lines: usize,
}

impl Partial {
    /// Opens the file at `path`, or makes it, and leaves in it what is whole.
    ///
    /// That is a number of portions: those that come after them are then cut, batched and rounded
    /// as without an end between.
    ///
    /// # Errors
    /// It cannot be read or written, or another process writes to it.
    pub(super) fn open(path: &Path, format: Format, n_best: usize) -> anyhow::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let error = anyhow!(
                    "`{}` is in use: another process writes to it",
                    path.display()
                );
                return Err(with_hint(
                    error,
                    "stop that one first, or give another `--output`",
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock `{}`", path.display()));
            }
        }
        let (lines, bytes) = whole(BufReader::new(&mut file), format, n_best)
            .with_context(|| format!("`{}` is no output in this format", path.display()))?;
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes))?;
        Ok(Self { file, lines })
    }

    pub(super) fn writer(&self) -> anyhow::Result<File> {
        Ok(self.file.try_clone()?)
    }

    /// Gives the file its final name.
    pub(super) fn finish(self, partial: &Path, path: &Path) -> anyhow::Result<()> {
        self.file.sync_all()?;
        Ok(fs_err::rename(partial, path)?)
    }
}

/// Returns the path at which output grows that is to be at `path`. All that decides it besides the
/// input is in the name, so that no file is of two models.
pub(super) fn place(path: &Path, decided_by: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{decided_by}.partial"));
    name.into()
}

/// Returns how many lines of the input are translated in an output, as a number of portions, and in
/// how many bytes.
fn whole(mut output: impl BufRead, format: Format, n_best: usize) -> anyhow::Result<(usize, u64)> {
    let mut row = Vec::new();
    let mut rows = 0;
    let mut at = 0;
    let mut lines = 0;
    let mut bytes = 0;
    while output.read_until(b'\n', &mut row)? > 0 && row.ends_with(b"\n") {
        // A line of the input is complete when its last row is there, and in a table when that of
        // another line is.
        let complete = match format {
            Format::Text => (rows + 1) / n_best,
            Format::Jsonl => rows + 1,
            Format::Tsv => {
                let number = row
                    .split(|&byte| byte == b'\t')
                    .next()
                    .and_then(|number| str::from_utf8(number).ok());
                let newest: usize = number
                    .and_then(|number| number.parse().ok())
                    .context("a row begins with the number of a line")?;
                newest.saturating_sub(1)
            }
        };
        let before = at;
        at += row.len() as u64;
        if complete >= lines + PORTION {
            lines += PORTION;
            bytes = if format == Format::Tsv { before } else { at };
        }
        rows += 1;
        row.clear();
    }
    Ok((lines, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_portions_are_kept_and_what_comes_after_is_not() {
        let rows: Vec<String> = (0..2 * PORTION + 10)
            .map(|line| format!("{line}\n"))
            .collect();
        let text = rows.concat();
        let portion =
            |bytes: &str, format, n_best| whole(bytes.as_bytes(), format, n_best).unwrap();
        let end = |rows: usize| {
            text.split_inclusive('\n')
                .take(rows)
                .map(str::len)
                .sum::<usize>() as u64
        };
        assert_eq!(
            portion(&text, Format::Text, 1),
            (2 * PORTION, end(2 * PORTION))
        );
        assert_eq!(portion(&text, Format::Text, 2), (PORTION, end(2 * PORTION)));
        assert_eq!(
            portion(&text[..end(PORTION) as usize], Format::Jsonl, 3),
            (PORTION, end(PORTION))
        );
        assert_eq!(
            portion(&text[..end(PORTION) as usize - 1], Format::Jsonl, 1),
            (0, 0),
            "the last row has no end"
        );
        assert_eq!(portion("", Format::Text, 1), (0, 0));
    }

    #[test]
    fn a_line_in_a_table_is_complete_when_the_next_begins() {
        let rows: Vec<String> = (1..=PORTION)
            .map(|line| format!("{line}\t1\ta\n{line}\t2\tb\n"))
            .collect();
        let table = rows.concat();
        let found = |table: &str| whole(table.as_bytes(), Format::Tsv, 5).unwrap();
        assert_eq!(found(&table), (0, 0));
        let next = format!("{table}{}\t1\tc\n", PORTION + 1);
        assert_eq!(found(&next), (PORTION, table.len() as u64));
        assert!(whole(&b"not a table\n"[..], Format::Tsv, 1).is_err());
    }
}
