//! Checks that config, text and tokenizers are the same when a run is resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use polyglow_data::corpus::Corpus;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::error::{Result, failed, usage, with_hint};
use polyglow_predict::wording::counted;

use crate::config::{Config, Difference, TrainConfig};
use crate::run::{RunDirectory, TextHashes, hash, hexadecimal};

/// Changed files that a message names at most.
const NAMED_FILES: usize = 5;

/// Makes sure that a run is resumed with the config it started with, except for what cannot change
/// its result.
pub(super) fn check_same_config(run: &RunDirectory, config: &Config) -> Result<()> {
    if !run.config_path().is_file() {
        return Ok(());
    }
    let mut old = run.config()?;
    adopt_free_keys(&mut old.train, &config.train);
    if old.device != config.device {
        tracing::warn!(
            "the run began on `{}`; on `{}` it continues with other dropout masks and other rounding",
            old.device,
            config.device
        );
    }
    old.device.clone_from(&config.device);
    old.license.clone_from(&config.license);
    let differences = config.differences(&old)?;
    if differences.is_empty() {
        return Ok(());
    }
    if run.checkpoints(1).steps()?.is_empty() {
        // Nothing has been trained, as after a check that failed.
        return Ok(());
    }
    let changes: Vec<String> = differences.iter().map(change).collect();
    let error = failed!(
        "`{}` was trained with another config: {}",
        run.root().display(),
        changes.join("; ")
    );
    let advice = "set it back to resume, start again in another directory with `--run NEW_RUN`, or, with a model of the same \
                  sizes, continue from these weights in a new run with `--fork NEW_RUN`";
    let moves_end = differences
        .iter()
        .any(|change| matches!(&*change.key, "train.max_steps" | "train.max_epochs"));
    let hint = if moves_end {
        format!("{}; {advice}", why_no_other_end(&config.train))
    } else {
        advice.to_owned()
    };
    Err(with_hint(usage(error), hint))
}

/// Shows a difference between a run's config and the new one.
pub(super) fn change(Difference { key, ours, theirs }: &Difference) -> String {
    format!("`{key} = {theirs}`, now `{ours}`")
}

/// Warns if the steps so far were computed with other CPU instructions than those to come.
pub(super) fn warn_of_other_instructions(old: Option<&str>, new: Option<&str>) {
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        tracing::warn!(
            "the steps so far were computed with {old}, those to come with {new}: they round differently"
        );
    }
}

/// Says why the end of a training cannot be moved.
fn why_no_other_end(train: &TrainConfig) -> &'static str {
    if train.schedule.0.depends_on_last_step() {
        "the learning rate of every step depends on the last step"
    } else if train.patience > 0 {
        "with `train.patience` the validation at the old end counts"
    } else {
        "the end can only be moved to a later step; Ctrl-C stops earlier, and `polyglow evaluate` tests what was saved"
    }
}

/// Lets keys differ that do not change the result of a step: how often something is shown or kept,
/// how many steps may be skipped in a row, the path of a file, and a later end where the schedule
/// does not aim at the end.
fn adopt_free_keys(old: &mut TrainConfig, new: &TrainConfig) {
    old.log_every = new.log_every;
    old.save_every = new.save_every;
    old.keep_last = new.keep_last;
    old.max_skipped_steps = new.max_skipped_steps;
    old.rank_timeout = new.rank_timeout;
    old.tensorboard = new.tensorboard;
    // Only one dictionary and hardly more than one model fit a tokenizer, wherever they lie.
    old.dictionary.clone_from(&new.dictionary);
    old.spm.clone_from(&new.spm);
    // With patience the validation at the old end counts, which a later end would not have.
    let may_end_later = !new.schedule.0.depends_on_last_step() && new.patience == 0;
    if may_end_later
        && is_no_earlier(new.max_steps, old.max_steps)
        && is_no_earlier(new.max_epochs, old.max_epochs)
    {
        old.max_steps = new.max_steps;
        old.max_epochs = new.max_epochs;
    }
}

/// Compares two ends of a training; `None` is no end.
fn is_no_earlier(new: Option<u64>, old: Option<u64>) -> bool {
    new.unwrap_or(u64::MAX) >= old.unwrap_or(u64::MAX)
}

/// Computes the hashes of the data and the tokenizers of a run.
///
/// # Errors
/// A file cannot be read.
pub(super) fn text_hashes(
    train: &Corpus,
    valid: Option<&Corpus>,
    tokenizers: &Tokenizers,
) -> Result<TextHashes> {
    let train = train.hashes()?;
    let valid = valid.map(Corpus::hashes).transpose()?;
    let splits = [Some(&train), valid.as_ref()];
    let splits: Vec<_> = splits.into_iter().flatten().collect();
    let files = splits.iter().flat_map(|split| &split.files);
    let images = splits.iter().flat_map(|split| &split.images);
    Ok(TextHashes {
        files: files.map(named).collect(),
        images: images.map(named).collect(),
        train: hexadecimal(&train.whole),
        valid: valid
            .as_ref()
            .map(|valid| hexadecimal(&valid.whole))
            .unwrap_or_default(),
        tokenizers: hash(tokenizers)?,
    })
}

/// Writes a hash and the path of its file as checkpoints have them.
fn named((path, hash): &(PathBuf, [u8; 32])) -> (String, String) {
    (path.display().to_string(), hexadecimal(hash))
}

/// Makes sure that a run is resumed with the text and the tokenizers it started with. The first
/// checkpoints may not know them.
///
/// # Errors
/// One of them is another (exit code 2): the message names which, and the files that differ.
pub(super) fn check_same_text(run: &RunDirectory, text: &TextHashes) -> Result<()> {
    let Some(old) = run
        .checkpoints(1)
        .newest_state()?
        .and_then(|state| state.text)
    else {
        return Ok(());
    };
    let contents = [
        ("the training text (`data.train`)", &old.train, &text.train),
        (
            "the validation text (`data.valid`)",
            &old.valid,
            &text.valid,
        ),
        (
            "the tokenizer in the run's directory",
            &old.tokenizers,
            &text.tokenizers,
        ),
    ];
    let mut changed: Vec<&str> = contents
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(name, ..)| name)
        .collect();
    if !old.images.is_empty() && old.images != text.images {
        changed.push("the images that have captions");
    }
    if changed.is_empty() {
        return Ok(());
    }
    let files = changed_files(&old, text);
    let files = if files.is_empty() {
        String::new()
    } else {
        format!(": {}", files.join(", "))
    };
    let changed = changed.join(" and of ");
    let error = failed!(
        "`{}` was trained with other content of {changed}{files}",
        run.root().display()
    );
    let advice = "restore the old content to resume, or continue from these weights in a new run with `--fork NEW_RUN`";
    Err(with_hint(usage(error), advice))
}

/// Lists a few of the files and images whose content has changed, and when they were written. It is
/// empty for a run whose checkpoints do not know them.
fn changed_files(old: &TextHashes, new: &TextHashes) -> Vec<String> {
    let mut changed = changes(&old.files, &new.files);
    changed.extend(changes(&old.images, &new.images));
    if changed.len() > NAMED_FILES {
        let more = changed.len() - NAMED_FILES;
        changed.truncate(NAMED_FILES);
        changed.push(format!("and {}", counted(more as u64, "other")));
    }
    changed
}

fn changes(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    if old.is_empty() {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for (path, hash) in new {
        if old.get(path) != Some(hash) {
            let written = age(path)
                .map(|age| format!(" (written {} ago)", words(age)))
                .unwrap_or_default();
            changes.push(format!("`{path}` has changed{written}"));
        }
    }
    let gone = old.keys().filter(|path| !new.contains_key(*path));
    changes.extend(gone.map(|path| format!("`{path}` is not read any more")));
    changes
}

/// Returns the time since a file was written; `None` where that is not known.
fn age(path: &str) -> Option<Duration> {
    let written = fs::metadata(path).ok()?.modified().ok()?;
    written.elapsed().ok()
}

/// Shows a duration in one unit: `5 minutes`.
fn words(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 86_400.. => counted(seconds / 86_400, "day"),
        seconds @ 3600.. => counted(seconds / 3600, "hour"),
        seconds @ 60.. => counted(seconds / 60, "minute"),
        seconds => counted(seconds, "second"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_one_unit() {
        for (seconds, expected) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (119, "1 minute"),
            (7200, "2 hours"),
            (260_000, "3 days"),
        ] {
            assert_eq!(words(Duration::from_secs(seconds)), expected);
        }
    }
}
