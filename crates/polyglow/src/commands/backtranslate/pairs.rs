//! The pairs of a text and its translations.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use polyglow_data::file::NewFile;
use polyglow_data::lines::Lines;

use super::BacktranslateArgs;

/// The pairs before they are cleaned, in two files.
pub(super) struct RawPairs {
    /// Source and target.
    pub(super) paths: [PathBuf; 2],
    /// The files that they become if they are not cleaned.
    kept_paths: [PathBuf; 2],
}

impl RawPairs {
    /// Pairs each line of the text with its translation. Left out are lines without one, and those
    /// that score less than the share to keep.
    ///
    /// # Errors
    /// The text or the table cannot be read, or the disk refuses.
    pub(super) fn write(
        args: &BacktranslateArgs,
        table: &Path,
        languages: &[String; 2],
    ) -> anyhow::Result<Self> {
        let [paths, kept_paths] = ["translated", "train"].map(|name| {
            languages
                .clone()
                .map(|language| args.out.join(format!("{name}.{language}")))
        });
        let least = least_score(table, args.keep)?;
        let create = |path: &Path| {
            let file = NewFile::create(path);
            let file = file.with_context(|| format!("cannot write `{}`", path.display()))?;
            anyhow::Ok(BufWriter::new(file))
        };
        let [mut src, mut tgt] = [create(&paths[0])?, create(&paths[1])?];
        let mut mono = Lines::open(&args.mono)?;
        let mut num_low = 0_u64;
        for row in Lines::open(table)? {
            let row = row?;
            let Row { line, score, text } = Row::parse(&row)
                .with_context(|| format!("`{}` is no table of translations", table.display()))?;
            let target = line_at(&mut mono, line)?;
            if text.trim().is_empty() || target.trim().is_empty() {
                continue;
            }
            if score < least {
                num_low += 1;
                continue;
            }
            writeln!(src, "{text}")
                .and_then(|()| writeln!(tgt, "{target}"))
                .with_context(|| format!("cannot write into `{}`", args.out.display()))?;
        }
        for file in [src, tgt] {
            file.into_inner()
                .map_err(io::Error::from)
                .and_then(NewFile::commit)
                .with_context(|| format!("cannot write into `{}`", args.out.display()))?;
        }
        if num_low > 0 {
            tracing::info!(
                "{num_low} pairs are left out, whose translations score less than {least:.3}"
            );
        }
        Ok(Self { paths, kept_paths })
    }

    /// Gives the files the names of the result.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        for (path, kept) in self.paths.iter().zip(&self.kept_paths) {
            fs::rename(path, kept).with_context(|| format!("cannot write `{}`", kept.display()))?;
        }
        Ok(())
    }
}

/// A row of the table that `translate --format tsv` writes.
struct Row<'r> {
    /// The line of the input, counted from 1.
    line: u64,
    score: f64,
    text: &'r str,
}

impl<'r> Row<'r> {
    /// Reads line, rank, score, log-probability and text.
    fn parse(row: &'r str) -> Option<Self> {
        let mut columns = row.splitn(5, '\t');
        let line = columns.next()?.parse().ok()?;
        let _rank = columns.next()?;
        let score = columns.next()?.parse().ok()?;
        let _log_prob = columns.next()?;
        Some(Self {
            line,
            score,
            text: columns.next()?,
        })
    }
}

/// Reads on to a line of a file, counted from 1.
///
/// # Errors
/// The file ends before.
fn line_at(lines: &mut Lines, number: u64) -> anyhow::Result<String> {
    while let Some(text) = lines.next().transpose()? {
        if lines.line() == number {
            return Ok(text);
        }
    }
    bail!("`{}` has no line {number}", lines.path().display())
}

/// Returns the score of the worst translation among the share to keep.
fn least_score(table: &Path, keep: f64) -> anyhow::Result<f64> {
    if keep >= 1.0 {
        return Ok(f64::NEG_INFINITY);
    }
    let mut scores = Vec::new();
    for row in Lines::open(table)? {
        let row = row?;
        let row = Row::parse(&row).filter(|row| !row.text.trim().is_empty());
        scores.extend(row.map(|row| row.score));
    }
    scores.sort_unstable_by(|left, right| right.total_cmp(left));
    let num_kept = (scores.len() as f64 * keep).ceil() as usize;
    let last = num_kept.checked_sub(1).and_then(|last| scores.get(last));
    Ok(last.copied().unwrap_or(f64::NEG_INFINITY))
}
