//! The `checkpoints` directory of a run: how many checkpoints are kept, and the links `last` and
//! `best`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use polyglow_data::file::sync_directory;
use polyglow_predict::error::{Context, Result, TrainError, failed, with_hint};

use super::{Checkpoint, Content, TrainState, remove_directory, storage};

/// The `checkpoints` directory of a run. It holds `step-N/`, checkpoints that were made from those,
/// such as `average/`, and the relative links `last` and `best`.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep_last: usize,
}

impl Checkpoints {
    /// Makes it for the checkpoints in `dir`, of which the newest `keep_last` (at least one) and the
    /// best are kept.
    pub fn new(dir: PathBuf, keep_last: usize) -> Self {
        Self {
            dir,
            keep_last: keep_last.max(1),
        }
    }

    /// Writes the checkpoint `step-N`, points `last` and, where it is this step's, `best` to it,
    /// and removes what is no longer kept.
    ///
    /// # Errors
    /// The checkpoint cannot be written, as where the run's directory is gone; every earlier one is
    /// then still there.
    pub fn save(&self, content: &Content, state: &TrainState) -> Result<PathBuf> {
        match fs::create_dir(&self.dir) {
            Ok(()) => self.dir.parent().map_or(Ok(()), sync_directory)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make `{}`", self.dir.display()));
            }
        }
        let path = self.write(&format!("step-{}", state.step), content, state)?;
        // The checkpoint is written, which is what matters; the next save tries the links and the
        // removals again.
        if let Err(error) = self.recover(state) {
            tracing::warn!("{error}");
        }
        Ok(path)
    }

    /// Finishes what a process that was killed in [`Self::save`] left undone before or after it
    /// wrote `state`.
    ///
    /// # Errors
    /// Something cannot be moved, linked or removed.
    pub fn recover(&self, state: &TrainState) -> Result<()> {
        self.link(state)?;
        self.remove_old(state)
    }

    /// Removes what a killed process left unfinished of the checkpoints whose names `ours` accepts,
    /// and brings back what it was about to replace.
    ///
    /// # Errors
    /// Something cannot be moved or removed; a missing directory is none.
    pub fn tidy(&self, ours: impl Fn(&str) -> bool) -> Result<()> {
        if !self.dir.is_dir() {
            return Ok(());
        }
        storage::tidy(&self.dir, ours)
            .with_context(|| format!("cannot clear `{}`", self.dir.display()))
    }

    /// Points `last` and `best` to the checkpoints that `state` names.
    fn link(&self, state: &TrainState) -> Result<()> {
        link(&self.dir, "last", &format!("step-{}", state.step))?;
        match state.best.map(|best| format!("step-{}", best.step)) {
            Some(best) if self.dir.join(&best).is_dir() => link(&self.dir, "best", &best),
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint under a name of its own, such as `average`.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn write(&self, name: &str, content: &Content, state: &TrainState) -> Result<PathBuf> {
        let path = self.dir.join(name);
        Checkpoint::write(&path, content, state)?;
        Ok(path)
    }

    /// Opens the newest checkpoint that is whole. A damaged one is skipped with a warning. Returns
    /// `None` if there is no checkpoint.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn newest(&self) -> Result<Option<Checkpoint>> {
        for step in self.steps()?.into_iter().rev() {
            match open_whole(&self.dir.join(format!("step-{step}"))) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) => tracing::warn!("skipping a checkpoint: {error}"),
            }
        }
        Ok(None)
    }

    /// Reads the state of the newest checkpoint whose state can be read, whole or not. Returns `None`
    /// if there is none.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn newest_state(&self) -> Result<Option<TrainState>> {
        for step in self.steps()?.into_iter().rev() {
            if let Ok(checkpoint) = Checkpoint::open(&self.dir.join(format!("step-{step}"))) {
                return Ok(Some(checkpoint.state));
            }
        }
        Ok(None)
    }

    /// Returns whether there is a checkpoint or a link of that name, whole or damaged.
    pub fn has(&self, name: &str) -> bool {
        self.dir.join(name).symlink_metadata().is_ok()
    }

    /// Returns whether there is any checkpoint, whole or damaged.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one has none.
    pub fn has_any(&self) -> Result<bool> {
        let names = self.names()?;
        Ok(names
            .iter()
            .any(|name| Checkpoint::is_at(&self.dir.join(name))))
    }

    /// Opens the checkpoint that a user calls `best`, `last`, `step-N`, `average`, or by a path.
    ///
    /// # Errors
    /// There is none of that name (the message lists those there are), or it is damaged.
    pub fn find(&self, name: &str) -> Result<Checkpoint> {
        for path in [self.dir.join(name), PathBuf::from(name)] {
            if Checkpoint::is_at(&path) {
                return Checkpoint::open(&path);
            }
        }
        Err(self.not_found(name)?)
    }

    /// Makes the error for a name that no checkpoint has.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn not_found(&self, name: &str) -> Result<TrainError> {
        let mut known = Vec::new();
        for step in self.steps()? {
            known.push(format!("step-{step}"));
        }
        for link in ["best", "last"] {
            if Checkpoint::is_at(&self.dir.join(link)) {
                known.push(link.to_owned());
            }
        }
        known.extend(self.named()?);
        let dir = self.dir.display();
        if known.is_empty() {
            let error = failed!("no checkpoint in `{dir}`: nothing has been trained there yet");
            return Ok(with_hint(
                error,
                "`polyglow train` with the run's config trains it",
            ));
        }
        let known = known.join(", ");
        let path = Path::new(name);
        if path.components().count() > 1 || path.is_absolute() {
            let what = if path.exists() {
                "that is no checkpoint"
            } else {
                "there is no such directory"
            };
            let error = failed!("no checkpoint at `{name}`: {what}");
            let advice =
                format!("a checkpoint is a directory with a `state.json`; `{dir}` has {known}");
            return Ok(with_hint(error, advice));
        }
        let error = failed!("no checkpoint `{name}` in `{dir}`; there is {known}");
        Ok(with_hint(
            error,
            "give one of these, or the path of a checkpoint, with `--checkpoint`",
        ))
    }

    /// Opens the checkpoint of that name in this directory; returns `None` if there is none.
    ///
    /// # Errors
    /// It is damaged.
    pub fn get(&self, name: &str) -> Result<Option<Checkpoint>> {
        let path = self.dir.join(name);
        if !Checkpoint::is_at(&path) {
            return Ok(None);
        }
        Checkpoint::open(&path).map(Some)
    }

    /// Lists the steps that have a checkpoint, in order.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one has no steps.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let mut steps = Vec::new();
        for name in self.names()? {
            if let Some(step) = name.strip_prefix("step-")
                && let Ok(step) = step.parse()
            {
                steps.push(step);
            }
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Lists the checkpoints that were made from those of steps, such as `average`, in the order of
    /// their names.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one has none.
    pub fn named(&self) -> Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| self.is_named(name));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether `name` is that of a whole checkpoint of no step, and not a link to another.
    fn is_named(&self, name: &str) -> bool {
        let is_unfinished =
            name.ends_with(storage::UNFINISHED) || name.ends_with(storage::REPLACED);
        let path = self.dir.join(name);
        // Where the file system has no symbolic links, a file stands for one.
        let is_link = path.is_symlink() || path.is_file();
        !name.starts_with("step-") && !is_unfinished && !is_link && Checkpoint::is_at(&path)
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            // A file of that name has none either.
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                    .contains(&error.kind()) =>
            {
                return Ok(Vec::new());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read `{}`", self.dir.display()));
            }
        };
        Ok(entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect())
    }

    fn remove_old(&self, state: &TrainState) -> Result<()> {
        // Those of later steps are damaged, or training would have resumed from them. They do not
        // count, and are replaced when training comes to their steps again.
        let mut steps = self.steps()?;
        steps.retain(|&step| step <= state.step);
        let old = steps.len().saturating_sub(self.keep_last);
        for &step in &steps[..old] {
            if state.best.is_none_or(|best| best.step != step) && step != state.step {
                remove_directory(&self.dir.join(format!("step-{step}")))?;
            }
        }
        Ok(())
    }
}

/// Opens a checkpoint and confirms all its files.
fn open_whole(path: &Path) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open(path)?;
    checkpoint.verify()?;
    Ok(checkpoint)
}

/// Points the link `name` to `target`, both in `dir`, in one step.
fn link(dir: &Path, name: &str, target: &str) -> Result<()> {
    replace_link(dir, name, target)
        .with_context(|| format!("cannot point `{}` to `{target}`", dir.join(name).display()))
}

fn replace_link(dir: &Path, name: &str, target: &str) -> io::Result<()> {
    // A link cannot be changed, but a rename replaces it in one step.
    let new = dir.join(format!("{name}.tmp"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => storage::point(&new, target)?,
    }
    fs::rename(&new, dir.join(name))?;
    sync_directory(dir)
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::super::{Best, MODEL, OPTIMIZER};
    use super::*;

    fn content(value: f32) -> Content {
        let tensors = |name: &str| vec![(name.to_owned(), TensorData::new(vec![value; 3], [3]))];
        Content {
            model: tensors("w"),
            optimizer: tensors("mean.w"),
            ema: Vec::new(),
        }
    }

    fn state(step: u64, best: u64) -> TrainState {
        TrainState {
            step,
            best: Some(Best {
                step: best,
                score: 1.0,
                loss: 1.0,
            }),
            ..TrainState::default()
        }
    }

    #[test]
    fn the_newest_and_the_best_are_kept_and_linked() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().join("checkpoints"), 2);
        for step in 1..=5 {
            checkpoints
                .save(&content(step as f32), &state(step, step.min(2)))
                .expect("it can be written");
        }
        assert_eq!(checkpoints.steps().expect("it can be read"), [2, 4, 5]);
        assert_eq!(
            checkpoints.find("best").expect("there is one").state.step,
            2
        );
        assert_eq!(
            checkpoints.find("last").expect("there is one").state.step,
            5
        );
        #[cfg(unix)]
        assert_eq!(
            fs::read_link(dir.path().join("checkpoints/last")).expect("a link"),
            Path::new("step-5")
        );
        // As on a disk without links.
        fs::remove_file(dir.path().join("checkpoints/best")).expect("it is there");
        fs::write(dir.path().join("checkpoints/best"), "step-4").expect("it can be written");
        assert_eq!(
            checkpoints.find("best").expect("there is one").state.step,
            4
        );
        assert!(checkpoints.named().expect("it can be read").is_empty());
        let mut model = checkpoints
            .find("step-4")
            .expect("there is one")
            .model()
            .expect("it can be read");
        assert_eq!(
            model
                .take("w", &[3])
                .expect("it is there")
                .iter::<f32>()
                .collect::<Vec<_>>(),
            [4.0; 3]
        );
        let error = checkpoints
            .find("step-3")
            .expect_err("it is gone")
            .to_string();
        assert!(
            error.contains("step-2, step-4, step-5, best, last"),
            "{error}"
        );
    }

    #[test]
    fn a_damaged_checkpoint_is_passed_over() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().to_owned(), 3);
        for step in 1..=3 {
            checkpoints
                .save(&content(step as f32), &state(step, 1))
                .expect("it can be written");
        }
        let file = dir.path().join("step-3").join(MODEL);
        let mut bytes = fs::read(&file).expect("it is there");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        fs::write(&file, bytes).expect("it can be written");
        fs::remove_file(dir.path().join("step-2").join(OPTIMIZER)).expect("it is there");
        assert_eq!(
            checkpoints
                .newest()
                .expect("it can be read")
                .expect("one is whole")
                .state,
            state(1, 1)
        );
    }

    #[test]
    fn a_model_is_read_without_the_optimizer_that_only_training_needs() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().to_owned(), 1);
        checkpoints
            .save(&content(1.0), &state(1, 1))
            .expect("it can be written");
        fs::remove_file(dir.path().join("step-1").join(OPTIMIZER)).expect("it is there");
        let checkpoint = checkpoints.find("last").expect("there is one");
        assert!(checkpoint.model().is_ok());
        let error = format!("{:#}", checkpoint.verify().expect_err("a file is missing"));
        assert!(
            error.contains("is damaged: cannot read its `optimizer.safetensors`"),
            "{error}"
        );
    }

    #[test]
    fn changed_weights_are_never_loaded() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().to_owned(), 1);
        checkpoints
            .save(&content(1.0), &state(1, 1))
            .expect("it can be written");
        let file = dir.path().join("step-1").join(MODEL);
        let mut bytes = fs::read(&file).expect("it is there");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        fs::write(&file, bytes).expect("it can be written");
        let error = format!(
            "{:#}",
            checkpoints
                .find("last")
                .and_then(|checkpoint| checkpoint.model())
                .expect_err("damaged")
        );
        assert!(
            error.ends_with("is damaged: its `model.safetensors` is not what was written"),
            "{error}"
        );
    }
}
