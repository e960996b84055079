//! The ownership of directories: a training writes only into one that is empty or a run's, and
//! removes only files that runs leave there.

use std::path::Path;
use std::{fs, io};

use polyglow_data::file::remove_unfinished;
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};

use super::lock::{self, LOCK};
use super::{RunDirectory, held_out, tensorboard};

/// Files that a training writes after the config, so that a run that has one of them and no config
/// has lost its config.
const RECORDS: [&str; 4] = [
    "checkpoints",
    "metrics.jsonl",
    "validation",
    "inspection.json",
];
/// Files of a run that are written under a temporary name and renamed.
const REPLACED: [&str; 7] = [
    "config.toml",
    "tokenizer.json",
    "tokenizer.src.json",
    "tokenizer.tgt.json",
    "origin.json",
    "inspection.json",
    "metrics.jsonl",
];
/// The directory that an empty disk has in its root.
const LOST_AND_FOUND: &str = "lost+found";
/// Tells whether a run writes files of a name into one of its directories.
type IsOurs = fn(&str) -> bool;

/// Foreign files that a message names at most.
const NAMED: usize = 3;

impl RunDirectory {
    /// Makes sure that training may write into the directory: it is absent, empty or a run's.
    ///
    /// A run has a lock file, which every training writes before anything else, or a checkpoint. In
    /// a directory without them there may only be what another rank leaves there (`cache`) and
    /// names that begin with a dot.
    ///
    /// # Errors
    /// It holds other files and no run, or a run that has lost its config (exit code 2).
    pub fn check_is_ours(&self) -> Result<()> {
        if !self.config_path().is_file() {
            let record = RECORDS
                .iter()
                .find(|name| self.root().join(name).symlink_metadata().is_ok());
            if let Some(name) = record {
                return Err(not_complete(self.root(), name));
            }
        }
        if self.is_run()? {
            return Ok(());
        }
        let others = other_files(self.root())?;
        if others.is_empty() {
            Ok(())
        } else {
            Err(not_a_run(self.root(), &others))
        }
    }

    /// Removes the files that a killed process left unfinished, in every directory that runs write
    /// files to; those of checkpoints are removed with their directories.
    ///
    /// # Errors
    /// A directory cannot be read, or a file cannot be removed.
    pub(super) fn remove_unfinished(&self) -> Result<()> {
        let directories: [(&str, IsOurs); 4] = [
            ("", is_replaced),
            ("cache", is_cache),
            ("validation", is_validation_output),
            ("held-out", held_out::is_held_out_file),
        ];
        for (name, is_ours) in directories {
            let directory = self.root().join(name);
            remove_unfinished(&directory, is_ours)
                .with_context(|| format!("cannot clear `{}`", directory.display()))?;
        }
        Ok(())
    }

    /// Returns whether a training has written to the directory, or an import made it.
    fn is_run(&self) -> Result<bool> {
        Ok(lock::is_lock(&self.root().join(LOCK)) || self.checkpoints(1).has_any()?)
    }
}

/// Returns whether a run writes a file of that name into its directory and replaces it.
fn is_replaced(name: &str) -> bool {
    REPLACED.contains(&name) || name == tensorboard::NAME
}

/// Returns whether a run's cache of ids may have that name.
fn is_cache(name: &str) -> bool {
    name == "train.ids"
}

/// Returns whether the output of a validation may have that name: `step-N.txt`.
fn is_validation_output(name: &str) -> bool {
    let step = name
        .strip_prefix("step-")
        .and_then(|name| name.strip_suffix(".txt"));
    step.is_some_and(|step| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Lists the names in a directory, in order, without those that any directory may have and those
/// that a run begins with.
fn other_files(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| cannot_read(dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| cannot_read(dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A training that was killed at its very first write leaves an empty lock file.
        let is_unwritten_lock = name == LOCK
            && entry
                .metadata()
                .is_ok_and(|lock| lock.is_file() && lock.len() == 0);
        let is_cache = name == "cache" && entry.path().is_dir();
        if !name.starts_with('.') && name != LOST_AND_FOUND && !is_cache && !is_unwritten_lock {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn cannot_read(dir: &Path) -> String {
    format!("cannot read `{}`", dir.display())
}

fn not_complete(root: &Path, name: &str) -> TrainError {
    let error = failed!(
        "`{}` holds `{name}`, but no `config.toml`: the run is not complete",
        root.display()
    );
    with_hint(
        usage(error),
        "restore the config to resume, or give another directory",
    )
}

fn not_a_run(root: &Path, others: &[String]) -> TrainError {
    let first = others.iter().take(NAMED);
    let named: Vec<String> = first.map(|name| format!("`{name}`")).collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let root = root.display();
    let named = named.join(", ");
    let error = failed!(
        "`{root}` holds no run but other files, which a training might replace: {named}{more}"
    );
    with_hint(
        usage(error),
        "give a new or an empty directory for the run, such as `runs/NAME`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("it is there")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_is_empty_or_a_run_is_ours() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::new(dir.path().join("run"));
        run.check_is_ours().expect("it is not there yet");
        fs::create_dir(run.root()).expect("it can be made");
        run.check_is_ours().expect("it is empty");
        let write = |name: &str, text: &str| {
            fs::write(run.root().join(name), text).expect("it can be written");
        };
        write(".gitignore", "*\n");
        write("lock", "");
        fs::create_dir(run.root().join("cache")).expect("it can be made");
        run.check_is_ours().expect("there is nothing that matters");
        for name in [
            "notes.txt",
            "tokenizer.json",
            "config.toml",
            "train.log",
            "b.tmp",
        ] {
            write(name, "mine");
        }
        let error = run.check_is_ours().expect_err("there are files");
        assert_eq!(error.kind(), ErrorKind::Usage);
        let message = error.to_string();
        assert!(
            message.contains("`b.tmp`, `config.toml`, `notes.txt` and 2 more"),
            "{message}"
        );
        write("lock", "somebody else's\n");
        run.check_is_ours().expect_err("the lock is none of ours");
        fs::remove_file(run.root().join("lock")).expect("it is there");
        drop(run.lock().expect("it can be locked"));
        run.check_is_ours().expect("a training was here");
        fs::remove_file(run.root().join("config.toml")).expect("it is there");
        run.check_is_ours().expect("it has not begun");
        write("metrics.jsonl", "");
        let message = run.check_is_ours().expect_err("it has begun").to_string();
        assert!(
            message.contains("holds `metrics.jsonl`, but no `config.toml`"),
            "{message}"
        );
    }

    #[test]
    fn only_unfinished_files_of_a_run_are_removed_from_each_of_its_directories() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::new(dir.path());
        let directories = [
            (
                "",
                &[
                    "config.toml.12.tmp",
                    "tokenizer.tgt.json.7.tmp",
                    "metrics.jsonl.1.tmp",
                ][..],
                &[
                    "a.tmp",
                    "config.toml.tmp",
                    "config.toml.x1.tmp",
                    "notes.12.tmp",
                ][..],
            ),
            (
                "cache",
                &["train.ids.9.tmp"],
                &["mine.ids.9.tmp", "mine.tmp", "train.ids.tmp"],
            ),
            (
                "validation",
                &["step-10.txt.12.tmp", "step-20.txt.3.tmp"],
                &[
                    "mine.12.tmp",
                    "step-.txt.1.tmp",
                    "step-10.txt",
                    "step-x.txt.1.tmp",
                ],
            ),
            (
                "held-out",
                &[
                    "SHA256SUMS.4.tmp",
                    "since.json.4.tmp",
                    "test.a%2Fb.tgt.4.tmp",
                    "test.src.4.tmp",
                    "valid.tgt.4.tmp",
                ],
                &[
                    "mine.src.4.tmp",
                    "test.src",
                    "testing.src.4.tmp",
                    "valid.txt.4.tmp",
                ],
            ),
        ];
        for (directory, unfinished, kept) in directories {
            let directory = dir.path().join(directory);
            fs::create_dir_all(&directory).expect("it can be made");
            for name in unfinished.iter().chain(kept) {
                fs::write(directory.join(name), "half").expect("it can be written");
            }
        }
        run.make_room().expect("it can be cleared");
        for (directory, _, kept) in directories {
            let mut left = names(&dir.path().join(directory));
            left.retain(|name| directories.iter().all(|(directory, ..)| name != directory));
            assert_eq!(left, kept, "`{directory}`");
        }
    }
}
