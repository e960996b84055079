//! Checkpoints: each one directory, written beside, synced and renamed, with checksums inside.
//!
//! `checkpoints/step-N/` holds `model.safetensors`, `optimizer.safetensors`, `ema.safetensors` where a moving average is
//! kept, and `state.json`; `checkpoints/last` and `checkpoints/best` are relative links to one of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use burn::tensor::TensorData;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::monitor::Interval;
use crate::weights::{self, Weights};

/// Version of the directory's layout and of its tensor names.
const FORMAT: u32 = 1;

const STATE: &str = "state.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const AVERAGE: &str = "ema.safetensors";

/// Where training stands after a step: with the weights and the config, all that the next step depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Steps done.
    pub step: u64,
    /// Epoch of the next micro-batch, from 0.
    pub epoch: u64,
    /// Position of the next micro-batch in its epoch.
    pub position: u64,
    /// Target tokens seen, without padding.
    pub tokens: u64,
    /// The best validation so far.
    pub best: Option<Best>,
    /// Validations since the best.
    pub stale_validations: u64,
    /// Sums over the steps since the last report.
    pub interval: Interval,
}

/// The validation that no later one has beaten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The step it was made at.
    pub step: u64,
    /// The value of `train.best_metric`.
    pub score: f64,
}

/// `state.json`.
#[derive(Serialize, Deserialize)]
struct Manifest {
    format: u32,
    #[serde(flatten)]
    state: TrainState,
    /// SHA-256 of every other file, in hexadecimal digits.
    files: BTreeMap<String, String>,
}

/// What goes into a checkpoint beside the state; the average is empty where none is kept.
#[derive(Debug)]
pub struct Content {
    /// The weights.
    pub model: Vec<(String, TensorData)>,
    /// The optimizer's state.
    pub optimizer: Vec<(String, TensorData)>,
    /// The moving average of the weights.
    pub average: Vec<(String, TensorData)>,
}

/// A checkpoint read back, its checksums confirmed.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub path: PathBuf,
    /// Where training stood.
    pub state: TrainState,
}

/// The `checkpoints` directory of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep_last: usize,
}

impl Checkpoints {
    /// The checkpoints in `dir`, of which the newest `keep_last` (at least one) and the best are kept.
    pub fn new(dir: PathBuf, keep_last: usize) -> Self {
        Self { dir, keep_last: keep_last.max(1) }
    }

    /// Writes the checkpoint `step-N`, points `last` and, where it is this step's, `best` to it, and removes what is no
    /// longer kept.
    ///
    /// # Errors
    /// Something cannot be written; every earlier checkpoint is then still there.
    pub fn save(&self, content: &Content, state: &TrainState) -> anyhow::Result<PathBuf> {
        let name = format!("step-{}", state.step);
        let path = self.write(&name, content, state)?;
        self.link(state)?;
        self.remove_old(state)?;
        Ok(path)
    }

    /// Points `last` and `best` to where they belong after `state`, as a process may have been killed before it did.
    ///
    /// # Errors
    /// A link cannot be written.
    pub fn link(&self, state: &TrainState) -> anyhow::Result<()> {
        link(&self.dir, "last", &format!("step-{}", state.step))?;
        match state.best.map(|best| format!("step-{}", best.step)) {
            Some(best) if self.dir.join(&best).is_dir() => link(&self.dir, "best", &best),
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint under a name of its own: `average`.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn write(&self, name: &str, content: &Content, state: &TrainState) -> anyhow::Result<PathBuf> {
        let [path, beside, aside] =
            [name, &format!("{name}.tmp"), &format!("{name}.old")].map(|name| self.dir.join(name));
        let failed = || format!("cannot write the checkpoint `{}`", path.display());
        let fill = || -> anyhow::Result<()> {
            remove_directory(&beside)?;
            fs::create_dir_all(&beside)?;
            let mut files = BTreeMap::new();
            for (file, tensors) in
                [(MODEL, &content.model), (OPTIMIZER, &content.optimizer), (AVERAGE, &content.average)]
            {
                if !tensors.is_empty() {
                    weights::write(&beside.join(file), tensors)?;
                    files.insert(file.to_owned(), checksum(&fs::read(beside.join(file))?));
                }
            }
            let manifest = Manifest { format: FORMAT, state: state.clone(), files };
            fs::write(beside.join(STATE), serde_json::to_string_pretty(&manifest)? + "\n")?;
            File::open(beside.join(STATE))?.sync_all()?;
            sync_directory(&beside)?;
            if path.exists() {
                // A directory cannot be replaced in one step, so the old one is only removed once the new one stands.
                remove_directory(&aside)?;
                fs::rename(&path, &aside)?;
            }
            fs::rename(&beside, &path)?;
            remove_directory(&aside)?;
            Ok(sync_directory(&self.dir)?)
        };
        fill().with_context(failed)?;
        Ok(path)
    }

    /// The newest checkpoint that is whole; a damaged one is reported and passed over. None if there is none at all.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn newest(&self) -> anyhow::Result<Option<Checkpoint>> {
        for step in self.steps()?.into_iter().rev() {
            match Checkpoint::open(&self.dir.join(format!("step-{step}"))) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) => tracing::warn!("passing over a checkpoint: {error:#}"),
            }
        }
        Ok(None)
    }

    /// Whether there is a checkpoint or a link of that name, whole or damaged.
    pub fn has(&self, name: &str) -> bool {
        self.dir.join(name).symlink_metadata().is_ok()
    }

    /// The checkpoint that a user calls `best`, `last`, `step-N`, `average`, or by a path.
    ///
    /// # Errors
    /// There is none of that name (the message lists those there are), or it is damaged.
    pub fn find(&self, name: &str) -> anyhow::Result<Checkpoint> {
        for path in [self.dir.join(name), PathBuf::from(name)] {
            if path.join(STATE).is_file() {
                return Checkpoint::open(&path);
            }
        }
        let mut known: Vec<String> = self.steps()?.into_iter().map(|step| format!("step-{step}")).collect();
        let named = ["best", "last", "average"].into_iter().filter(|name| self.dir.join(name).join(STATE).is_file());
        known.extend(named.map(str::to_owned));
        ensure!(!known.is_empty(), "no checkpoint in `{}`: nothing has been trained there yet", self.dir.display());
        bail!("no checkpoint `{name}` in `{}`; there is {}", self.dir.display(), known.join(", "))
    }

    /// Where training stood at a checkpoint, without a look at its other files; none if there is no such checkpoint.
    ///
    /// # Errors
    /// Its state cannot be read.
    pub fn state(&self, name: &str) -> anyhow::Result<Option<TrainState>> {
        let path = self.dir.join(name).join(STATE);
        if !path.is_file() {
            return Ok(None);
        }
        let read = || -> anyhow::Result<Manifest> { Ok(serde_json::from_slice(&fs::read(&path)?)?) };
        let manifest = read().with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok(Some(manifest.state))
    }

    /// The file with the weights of a checkpoint, if there is one.
    pub fn model_path(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.join(name).join(MODEL)).filter(|path| path.is_file())
    }

    /// The steps that have a checkpoint, in order.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one has no steps.
    pub fn steps(&self) -> anyhow::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", self.dir.display())),
        };
        let step =
            |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> = entries.filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    fn remove_old(&self, state: &TrainState) -> anyhow::Result<()> {
        let steps = self.steps()?;
        let old = steps.len().saturating_sub(self.keep_last);
        for &step in &steps[..old] {
            if state.best.is_none_or(|best| best.step != step) && step != state.step {
                remove_directory(&self.dir.join(format!("step-{step}")))?;
            }
        }
        Ok(())
    }
}

impl Checkpoint {
    /// Opens a checkpoint directory and confirms the checksum of every file in it.
    ///
    /// # Errors
    /// A file is missing, damaged, or of a version that this program does not know.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let open = || -> anyhow::Result<TrainState> {
            let manifest: Manifest = serde_json::from_slice(&fs::read(path.join(STATE))?)?;
            ensure!(manifest.format == FORMAT, "its format is version {}, not {FORMAT}", manifest.format);
            for (file, expected) in &manifest.files {
                ensure!(file == MODEL || file == OPTIMIZER || file == AVERAGE, "it names an unknown file `{file}`");
                let found = checksum(&fs::read(path.join(file)).with_context(|| format!("`{file}`"))?);
                ensure!(&found == expected, "`{file}` is not what was written");
            }
            ensure!(manifest.files.contains_key(MODEL), "it has no `{MODEL}`");
            Ok(manifest.state)
        };
        let state = open().with_context(|| format!("the checkpoint `{}` is damaged", path.display()))?;
        Ok(Self { path: path.to_owned(), state })
    }

    /// The weights.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn model(&self) -> anyhow::Result<Weights> {
        Weights::read(&self.path.join(MODEL))
    }

    /// The optimizer's state.
    ///
    /// # Errors
    /// There is none, as in an average, or it cannot be read.
    pub fn optimizer(&self) -> anyhow::Result<Weights> {
        Weights::read(&self.path.join(OPTIMIZER))
    }

    /// The moving average of the weights.
    ///
    /// # Errors
    /// The run keeps none (`train.ema_decay` is 0), or it cannot be read.
    pub fn average(&self) -> anyhow::Result<Weights> {
        let path = self.path.join(AVERAGE);
        ensure!(
            path.is_file(),
            "the checkpoint `{}` has no moving average: `train.ema_decay` is 0",
            self.path.display()
        );
        Weights::read(&path)
    }
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut digits, byte| {
        digits.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or_default()));
        digits
    })
}

/// Points the link `name` to `target`, both in `dir`, in one step.
#[cfg(unix)]
fn link(dir: &Path, name: &str, target: &str) -> anyhow::Result<()> {
    let beside = dir.join(format!("{name}.tmp"));
    let replace = || -> io::Result<()> {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::os::unix::fs::symlink(target, &beside)?,
        }
        fs::rename(&beside, dir.join(name))?;
        sync_directory(dir)
    };
    replace().with_context(|| format!("cannot point `{}` to `{target}`", dir.join(name).display()))
}

/// Points the link `name` to `target`, both in `dir`.
#[cfg(windows)]
fn link(dir: &Path, name: &str, target: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    let _ = fs::remove_dir(&path);
    std::os::windows::fs::symlink_dir(target, &path)
        .with_context(|| format!("cannot point `{}` to `{target}`", path.display()))
}

/// Removes a directory and its content; it is no error if it is not there.
fn remove_directory(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// Has the disk confirm the names in a directory, where the system knows how to.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(value: f32) -> Content {
        let tensors = |name: &str| vec![(name.to_owned(), TensorData::new(vec![value; 3], [3]))];
        Content { model: tensors("w"), optimizer: tensors("mean.w"), average: Vec::new() }
    }

    fn state(step: u64, best: u64) -> TrainState {
        TrainState { step, best: Some(Best { step: best, score: 1.0 }), ..TrainState::default() }
    }

    #[test]
    fn the_newest_and_the_best_are_kept_and_linked() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().join("checkpoints"), 2);
        for step in 1..=5 {
            checkpoints.save(&content(step as f32), &state(step, step.min(2))).expect("it can be written");
        }
        assert_eq!(checkpoints.steps().expect("it can be read"), [2, 4, 5]);
        assert_eq!(checkpoints.find("best").expect("there is one").state.step, 2);
        assert_eq!(checkpoints.find("last").expect("there is one").state.step, 5);
        let link = fs::read_link(dir.path().join("checkpoints/last")).expect("a link");
        assert_eq!(link, Path::new("step-5"));
        let mut model = checkpoints.find("step-4").expect("there is one").model().expect("it can be read");
        assert_eq!(model.take("w", &[3]).expect("it is there").iter::<f32>().collect::<Vec<_>>(), [4.0; 3]);
        let error = checkpoints.find("step-3").expect_err("it is gone").to_string();
        assert!(error.contains("step-2, step-4, step-5, best, last"), "{error}");
    }

    #[test]
    fn a_damaged_checkpoint_is_passed_over() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let checkpoints = Checkpoints::new(dir.path().to_owned(), 3);
        for step in 1..=3 {
            checkpoints.save(&content(step as f32), &state(step, 1)).expect("it can be written");
        }
        let file = dir.path().join("step-3").join(MODEL);
        let mut bytes = fs::read(&file).expect("it is there");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        fs::write(&file, bytes).expect("it can be written");
        fs::remove_file(dir.path().join("step-2").join(OPTIMIZER)).expect("it is there");
        assert_eq!(checkpoints.newest().expect("it can be read").expect("one is whole").state, state(1, 1));
    }
}
