//! One checkpoint: a directory, written beside, synced and renamed, with checksums inside.
//!
//! `step-N/` holds `model.safetensors`, `optimizer.safetensors`, `ema.safetensors` where a moving average is kept, and
//! `state.json`.

mod directory;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use burn::tensor::TensorData;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use directory::Checkpoints;

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
    /// The loss, in nats per target token, which decides between equal scores; the first checkpoints did not have it.
    #[serde(default = "worst_loss")]
    pub loss: f64,
}

/// A loss that any other is better than; finite, because JSON has no infinity.
fn worst_loss() -> f64 {
    f64::MAX
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

/// A checkpoint that was written before. Its files are confirmed as they are read.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub path: PathBuf,
    /// Where training stood.
    pub state: TrainState,
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Whether there is a checkpoint at `path`, whole or damaged.
    pub fn is_at(path: &Path) -> bool {
        path.join(STATE).is_file()
    }

    /// Opens a checkpoint directory, with no more than a look at its state.
    ///
    /// # Errors
    /// The state is missing, damaged, or of a version that this program does not know.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let open = || -> anyhow::Result<Manifest> {
            let text = fs::read(path.join(STATE)).with_context(|| format!("cannot read its `{STATE}`"))?;
            let manifest: Manifest = serde_json::from_slice(&text).with_context(|| format!("in its `{STATE}`"))?;
            ensure!(manifest.format == FORMAT, "its format is version {}, not {FORMAT}", manifest.format);
            for file in manifest.files.keys() {
                ensure!([MODEL, OPTIMIZER, AVERAGE].contains(&&**file), "it names an unknown file `{file}`");
            }
            ensure!(manifest.files.contains_key(MODEL), "it has no `{MODEL}`");
            Ok(manifest)
        };
        let Manifest { state, files, .. } = open().with_context(|| damaged(path))?;
        Ok(Self { path: path.to_owned(), state, files })
    }

    /// Writes a checkpoint to `path`, in place of one that is there.
    ///
    /// # Errors
    /// Something cannot be written; what was there is still there then.
    pub fn write(path: &Path, content: &Content, state: &TrainState) -> anyhow::Result<()> {
        let [beside, aside] = [".tmp", ".old"].map(|ending| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        });
        let replace = || -> anyhow::Result<()> {
            remove_directory(&beside)?;
            fill(&beside, content, state)?;
            if path.exists() {
                // A directory cannot be replaced in one step, so the old one is only removed once the new one stands.
                remove_directory(&aside)?;
                fs::rename(path, &aside)?;
            }
            fs::rename(&beside, path)?;
            remove_directory(&aside)?;
            Ok(path.parent().map_or(Ok(()), sync_directory)?)
        };
        replace().with_context(|| format!("cannot write the checkpoint `{}`", path.display()))
    }

    /// Reads every file and confirms its checksum.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn verify(&self) -> anyhow::Result<()> {
        self.files.keys().try_for_each(|file| self.bytes(file).map(drop))
    }

    /// The weights.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn model(&self) -> anyhow::Result<Weights> {
        self.weights(MODEL)
    }

    /// The optimizer's state.
    ///
    /// # Errors
    /// There is none, as in an average; it cannot be read, or is damaged.
    pub fn optimizer(&self) -> anyhow::Result<Weights> {
        ensure!(
            self.files.contains_key(OPTIMIZER),
            "the checkpoint `{}` holds no state of the optimizer",
            self.path.display()
        );
        self.weights(OPTIMIZER)
    }

    /// The moving average of the weights.
    ///
    /// # Errors
    /// The run keeps none (`train.ema_decay` is 0); it cannot be read, or is damaged.
    pub fn average(&self) -> anyhow::Result<Weights> {
        ensure!(
            self.files.contains_key(AVERAGE),
            "the checkpoint `{}` has no moving average: `train.ema_decay` is 0",
            self.path.display()
        );
        self.weights(AVERAGE)
    }

    /// Number of trained values.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn parameters(&self) -> anyhow::Result<u64> {
        weights::count(&self.path.join(MODEL)).with_context(|| damaged(&self.path))
    }

    fn weights(&self, file: &str) -> anyhow::Result<Weights> {
        Weights::parse(&self.bytes(file)?, &self.path.join(file))
    }

    fn bytes(&self, file: &str) -> anyhow::Result<Vec<u8>> {
        let read = || -> anyhow::Result<Vec<u8>> {
            let bytes = fs::read(self.path.join(file)).with_context(|| format!("cannot read its `{file}`"))?;
            ensure!(self.files.get(file) == Some(&checksum(&bytes)), "its `{file}` is not what was written");
            Ok(bytes)
        };
        read().with_context(|| damaged(&self.path))
    }
}

fn damaged(path: &Path) -> String {
    format!("the checkpoint `{}` is damaged", path.display())
}

/// Makes the directory `path` with all files of a checkpoint, and has the disk confirm them.
fn fill(path: &Path, content: &Content, state: &TrainState) -> anyhow::Result<()> {
    fs::create_dir_all(path)?;
    let mut files = BTreeMap::new();
    for (file, tensors) in [(MODEL, &content.model), (OPTIMIZER, &content.optimizer), (AVERAGE, &content.average)] {
        if !tensors.is_empty() {
            weights::write(&path.join(file), tensors)?;
            files.insert(file.to_owned(), checksum(&fs::read(path.join(file))?));
        }
    }
    let manifest = Manifest { format: FORMAT, state: state.clone(), files };
    fs::write(path.join(STATE), serde_json::to_string_pretty(&manifest)? + "\n")?;
    File::open(path.join(STATE))?.sync_all()?;
    Ok(sync_directory(path)?)
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut digits, byte| {
        digits.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or_default()));
        digits
    })
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
