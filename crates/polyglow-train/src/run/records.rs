//! `metrics.jsonl`: the records of a run, one JSON object a line, in the order of the steps.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use polyglow_predict::error::{Context, Result, TrainError};
use polyglow_predict::evaluation::Scores;
use serde::Serialize;
use serde_json::{Value, json};

use polyglow_data::file;

use super::RunDirectory;
use super::tensorboard::EventFile;

/// The records of a run, with the file open for more.
pub struct Records {
    path: PathBuf,
    /// The open file; `None` in a process that writes no records.
    file: Option<File>,
    /// Bytes in the file that are whole records.
    len: u64,
    /// The bytes of records that could not be written yet.
    pending: Vec<u8>,
    /// The file of the same records for TensorBoard; `None` if none is written.
    events: Option<EventFile>,
}

impl Records {
    /// Opens the file of a run that resumes after `step`, and with `tensorboard` also writes
    /// TensorBoard's file.
    ///
    /// Records that will be written again are removed first: those of later steps and of tests, and a
    /// line that was cut off in the middle.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(run: &RunDirectory, step: u64, tensorboard: bool) -> Result<Self> {
        let path = &run.metrics_path();
        let old = match fs::read(path) {
            Ok(old) => old,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read `{}`", path.display()));
            }
        };
        let mut kept = Vec::with_capacity(old.len());
        let mut unreadable = Vec::new();
        for (number, line) in (1..).zip(old.split_inclusive(|&byte| byte == b'\n')) {
            if !is_record(line) {
                unreadable.push(number);
            }
            if stays(line, step) {
                kept.extend_from_slice(line);
            }
        }
        if let Some(first) = unreadable.first() {
            let count = unreadable.len();
            tracing::warn!(
                "lines of `{}` are removed that are not complete records: {count}, the first is line {first}",
                path.display()
            );
        }
        if kept != old {
            file::replace(path, &kept).with_context(|| cannot_write(path))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| cannot_write(path))?;
        let len = file.metadata().with_context(|| cannot_write(path))?.len();
        let mut records = Self {
            path: path.to_owned(),
            file: Some(file),
            len,
            pending: Vec::new(),
            events: None,
        };
        if tensorboard {
            let events = EventFile::create(run, run.root(), &read(path)?);
            records.events = events.inspect_err(without_events).ok();
        }
        Ok(records)
    }

    /// Makes the records of a process that writes nothing, since rank 0 of its group does.
    pub fn nowhere() -> Self {
        Self {
            path: PathBuf::new(),
            file: None,
            len: 0,
            pending: Vec::new(),
            events: None,
        }
    }

    /// Adds the scores of a set: `kind` is `valid` or `test`.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_scores(
        &mut self,
        kind: &str,
        split: &str,
        step: u64,
        scores: &Scores,
    ) -> Result<Value> {
        let mut record = serde_json::to_value(scores)?;
        for (key, value) in [
            ("kind", json!(kind)),
            ("split", json!(split)),
            ("step", json!(step)),
        ] {
            record[key] = value;
        }
        self.write(&record)?;
        Ok(record)
    }

    /// Adds a line. Where the disk is full, the line is kept and written with the next.
    ///
    /// # Errors
    /// The record is none that JSON can hold.
    pub fn write(&mut self, record: &impl Serialize) -> Result<()> {
        self.pending.extend(serde_json::to_vec(record)?);
        self.pending.push(b'\n');
        warn(self.flush());
        if let Some(mut events) = self.events.take() {
            let added = events.add(&serde_json::to_value(record)?);
            // After a part of an event, TensorBoard would read no other.
            self.events = added.inspect_err(without_events).ok().map(|()| events);
        }
        Ok(())
    }

    /// Writes the pending records and has the disk confirm all of them, so that no checkpoint is
    /// ahead of them. A failure is a warning.
    pub fn settle(&mut self) {
        warn(self.flush().and_then(|()| self.sync()));
    }

    fn sync(&self) -> Result<()> {
        match &self.file {
            Some(file) => file.sync_data().with_context(|| cannot_write(&self.path)),
            None => Ok(()),
        }
    }

    /// Writes the pending records.
    ///
    /// # Errors
    /// They still cannot be written; they stay pending.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(&self.pending)
        {
            // A part of a line may have been written, after which the next could not be read.
            let _ = file.set_len(self.len);
            return Err(error).with_context(|| cannot_write(&self.path));
        }
        self.len += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Reads the records of a run so far; there are none if there is no file. A line that was cut off by
/// a crash is skipped.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes
            .split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}

fn without_events(error: &TrainError) {
    tracing::warn!(
        "{error}; training continues without it: `polyglow report RUN --tensorboard DIR` makes it of all records"
    );
}

fn warn(written: Result<()>) {
    if let Err(error) = written {
        tracing::warn!("{error}; the records are kept and written later");
    }
}

/// Returns whether a line is whole and a record.
fn is_record(line: &[u8]) -> bool {
    line.ends_with(b"\n")
        && serde_json::from_slice::<Value>(line).is_ok_and(|record| record["step"].is_u64())
}

/// Returns whether a line is a whole record of a step up to `step`, and not of a test, which follows
/// the last step. At step 0 none stays: a run that begins, or begins again, writes all of them.
fn stays(line: &[u8], step: u64) -> bool {
    let Ok(record) = serde_json::from_slice::<Value>(line) else {
        return false;
    };
    let is_done = record["step"].as_u64().is_some_and(|done| done <= step);
    is_record(line) && step > 0 && is_done && record["kind"] != "test"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_will_be_made_again_and_torn_lines_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::new(dir.path());
        let path = run.metrics_path();
        fs::write(
            &path,
            "{\"step\":1}\n{\"step\":2}\nnonsense\n{\"step\":3}\n{\"step\":2,\"kind\":\"test\"}\n{\"step\":1,\"lo",
        )
        .expect("it can be written");
        Records::open(&run, 2, false)
            .expect("it opens")
            .write(&json!({"step": 4}))
            .expect("it can be written");
        assert_eq!(
            fs::read_to_string(&path).expect("it is there"),
            "{\"step\":1}\n{\"step\":2}\n{\"step\":4}\n"
        );
        fs::write(&path, "{\"step\":0,\"kind\":\"valid\"}\n").expect("it can be written");
        Records::open(&run, 0, false)
            .expect("it opens")
            .write(&json!({"step": 0}))
            .expect("it can be written");
        assert_eq!(
            fs::read_to_string(&path).expect("it is there"),
            "{\"step\":0}\n",
            "a fork is validated again"
        );
    }
}
