//! One checkpoint: a directory, written under another name, synced and renamed, with checksums
//! inside.
//!
//! `step-N/` holds `model.safetensors`, `optimizer.safetensors`, `ema.safetensors` where a moving
//! average is kept, and `state.json`.

mod directory;
mod storage;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use burn::tensor::TensorData;
use polyglow_data::batching::Selection;
use polyglow_data::file::{self, sync_directory};
use polyglow_predict::error::{Context, Result, TrainError, bail, ensure, with_hint};
use polyglow_predict::weights::{self, Weights};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use directory::Checkpoints;

use super::{Program, sha256, weights as weights_file};
use crate::train::{Interval, OwnParts};

/// The version of the directory's layout and of its tensor names.
const FORMAT: u32 = 1;

const STATE: &str = "state.json";
/// The field of the state that confirms the others.
const CHECKSUM: &str = "checksum";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const EMA: &str = "ema.safetensors";

/// The state of a training after a step: with the weights, the optimizer's state and the config, all
/// that the next step depends on.
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
    /// The lowest validation loss so far, in nats per target token, which need not be the best
    /// validation's; the first checkpoints did not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_loss: Option<f64>,
    /// Validations after the warm-up since one that brought a better score or a lower loss.
    pub stale_validations: u64,
    /// Sums over the steps since the last report.
    pub interval: Interval,
    /// Number of steps skipped since the last one that was not; the first checkpoints did not have it.
    #[serde(default)]
    pub skipped_in_a_row: u64,
    /// The hashes of the text that it was trained on; the first checkpoints did not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextHashes>,
    /// The CPU's instructions with which kernels computed its newest steps; `None` where they
    /// computed none on a CPU, and in the first checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The parts that came from the program, and not from the config; earlier checkpoints did not
    /// name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<OwnParts>,
    /// The program that made the newest steps; earlier checkpoints did not name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The rules that select the examples of each epoch; earlier checkpoints did not name theirs.
    #[serde(default = "Selection::unrecorded")]
    pub selection: Selection,
}

/// SHA-256 of the files on which a run depends in addition to its config, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextHashes {
    /// The training text, with its alignments.
    pub train: String,
    /// The validation text; empty where there is none.
    pub valid: String,
    /// The tokenizers of both sides.
    pub tokenizers: String,
    /// Each file of the text, by its path; the first checkpoints did not have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Each image that has captions, by its path; earlier checkpoints did not have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
}

/// The validation that no later one has beaten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The step it was made at.
    pub step: u64,
    /// The value of `train.best_metric`.
    pub score: f64,
    /// The loss, in nats per target token, which decides between equal scores; the first
    /// checkpoints did not have it.
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

impl Manifest {
    /// Parses a `state.json` and confirms its checksum, which the first ones did not have.
    fn parse(text: &[u8]) -> Result<Self> {
        let mut json: Map<String, Value> = serde_json::from_slice(text)?;
        if let Some(written) = json.remove(CHECKSUM) {
            ensure!(
                written == sha256(&serde_json::to_vec(&json)?),
                "it is not what was written"
            );
        }
        Ok(serde_json::from_value(json.into())?)
    }

    /// Returns the content of `state.json`. Its checksum is that of all other fields as JSON without
    /// spaces, in the order of their names.
    fn text(&self) -> Result<String> {
        let Value::Object(mut json) = serde_json::to_value(self)? else {
            bail!("a state is an object")
        };
        let checksum = sha256(&serde_json::to_vec(&json)?);
        json.insert(CHECKSUM.to_owned(), checksum.into());
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }
}

/// The tensors of a checkpoint.
#[derive(Debug)]
pub struct Content {
    /// The weights.
    pub model: Vec<(String, TensorData)>,
    /// The optimizer's state.
    pub optimizer: Vec<(String, TensorData)>,
    /// The exponential moving average of the weights; empty if the run keeps none.
    pub ema: Vec<(String, TensorData)>,
}

/// A checkpoint that was written before. Its files are confirmed as they are read.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub path: PathBuf,
    /// The state of the training.
    pub state: TrainState,
    /// SHA-256 of each file.
    files: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Returns whether there is a checkpoint at `path`, whole or damaged.
    pub fn is_at(path: &Path) -> bool {
        storage::follow(path).join(STATE).is_file()
    }

    /// Opens a checkpoint directory. Only its state is read.
    ///
    /// # Errors
    /// The state is missing, damaged, or of a version that this program does not know.
    pub fn open(path: &Path) -> Result<Self> {
        let path = &*storage::follow(path);
        let manifest = read_manifest(path).map_err(|error| damaged(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            state: manifest.state,
            files: manifest.files,
        })
    }

    /// Writes a checkpoint to `path`, and replaces one that is there.
    ///
    /// # Errors
    /// Something cannot be written, or does not read back as it was written; what was there is
    /// still there then.
    pub fn write(path: &Path, content: &Content, state: &TrainState) -> Result<()> {
        let unfinished = storage::sibling(path, storage::UNFINISHED);
        let written = write_and_replace(&unfinished, path, content, state);
        if written.is_err() {
            // A part of a checkpoint is of no use, and a full disk may be why it could not be written.
            let _ = remove_directory(&unfinished);
        }
        written.with_context(|| format!("cannot write the checkpoint `{}`", path.display()))
    }

    /// Reads every file and confirms its checksum.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn verify(&self) -> Result<()> {
        for file in self.files.keys() {
            self.bytes(file)?;
        }
        Ok(())
    }

    /// Returns the SHA-256 of the file of the weights, in hexadecimal digits.
    pub fn model_hash(&self) -> Option<&str> {
        self.files.get(MODEL).map(String::as_str)
    }

    /// Reads the weights.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn model(&self) -> Result<Weights> {
        self.weights(MODEL)
    }

    /// Reads the optimizer's state. It is empty for an update rule that keeps nothing, and in an
    /// average.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn optimizer(&self) -> Result<Weights> {
        if self.files.contains_key(OPTIMIZER) {
            self.weights(OPTIMIZER)
        } else {
            Weights::new(&self.path.join(OPTIMIZER), BTreeMap::new())
        }
    }

    /// Reads the exponential moving average of the weights.
    ///
    /// # Errors
    /// The run keeps none (`train.ema_decay` is 0); it cannot be read, or is damaged.
    pub fn ema(&self) -> Result<Weights> {
        ensure!(
            self.files.contains_key(EMA),
            "the checkpoint `{}` has no moving average: `train.ema_decay` is 0",
            self.path.display()
        );
        self.weights(EMA)
    }

    /// Counts the parameters of the model.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn parameters(&self) -> Result<u64> {
        weights_file::count(&self.path.join(MODEL)).map_err(|error| damaged(&self.path, error))
    }

    fn weights(&self, file: &str) -> Result<Weights> {
        Weights::parse(&self.bytes(file)?, &self.path.join(file))
    }

    fn bytes(&self, file: &str) -> Result<Vec<u8>> {
        self.read(file).map_err(|error| damaged(&self.path, error))
    }

    fn read(&self, file: &str) -> Result<Vec<u8>> {
        let bytes =
            fs::read(self.path.join(file)).with_context(|| format!("cannot read its `{file}`"))?;
        ensure!(
            self.files.get(file) == Some(&sha256(&bytes)),
            "its `{file}` is not what was written"
        );
        Ok(bytes)
    }
}

/// Reads and checks the state of the checkpoint at `path`.
fn read_manifest(path: &Path) -> Result<Manifest> {
    let text = fs::read(path.join(STATE)).with_context(|| format!("cannot read its `{STATE}`"))?;
    let manifest = Manifest::parse(&text).with_context(|| format!("in its `{STATE}`"))?;
    ensure!(
        manifest.format == FORMAT,
        "its format is version {}, not {FORMAT}",
        manifest.format
    );
    // A directory that was renamed by hand would be resumed as another step.
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let step = manifest.state.step;
    let named: Option<u64> = name
        .strip_prefix("step-")
        .and_then(|step| step.parse().ok());
    ensure!(
        named.is_none_or(|named| named == step),
        "it is named `{name}`, but is of step {step}"
    );
    for file in manifest.files.keys() {
        ensure!(
            [MODEL, OPTIMIZER, EMA].contains(&&**file),
            "it names an unknown file `{file}`"
        );
    }
    ensure!(manifest.files.contains_key(MODEL), "it has no `{MODEL}`");
    Ok(manifest)
}

/// Writes a checkpoint under another name, and renames it once the disk has confirmed it: whatever
/// happens in between, there is a whole checkpoint at `path` if there was one.
fn write_and_replace(
    unfinished: &Path,
    path: &Path,
    content: &Content,
    state: &TrainState,
) -> Result<()> {
    remove_directory(unfinished)?;
    fill(unfinished, content, state)?;
    storage::replace(unfinished, path)?;
    // The new name is on the disk only then.
    Ok(path.parent().map_or(Ok(()), sync_directory)?)
}

fn damaged(path: &Path, error: TrainError) -> TrainError {
    let error = error.context(format!("the checkpoint `{}` is damaged", path.display()));
    with_hint(
        error,
        "another checkpoint may be whole: `polyglow info RUN` lists them, `--checkpoint NAME` uses one",
    )
}

/// Makes the directory `path` with all files of a checkpoint, and has the disk confirm them.
fn fill(path: &Path, content: &Content, state: &TrainState) -> Result<()> {
    // Not with the directories above it: a run that was removed must not come back as a checkpoint
    // without its config.
    fs::create_dir(path)?;
    let mut files = BTreeMap::new();
    for (file, tensors) in [
        (MODEL, &content.model),
        (OPTIMIZER, &content.optimizer),
        (EMA, &content.ema),
    ] {
        if !tensors.is_empty() {
            let path = path.join(file);
            weights_file::write(&path, tensors)?;
            // A disk that loses bytes is noticed now, while the weights are still in memory.
            let written = fs::read(&path)?;
            weights::confirm(&written, tensors)
                .with_context(|| format!("`{file}` does not read back"))?;
            files.insert(file.to_owned(), sha256(&written));
        }
    }
    let manifest = Manifest {
        format: FORMAT,
        state: state.clone(),
        files,
    };
    // Last, as it has the hashes of the others, and a directory without it is no checkpoint.
    file::replace(&path.join(STATE), manifest.text()?.as_bytes())?;
    Ok(sync_directory(path)?)
}

/// Removes a directory and its content; it is no error if it is not there.
fn remove_directory(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}
