//! The disk space that a training takes, by a formula, and whether there is room to begin.

use std::path::Path;

use burn::module::Module;
use polyglow_model::parameter;
use polyglow_predict::error::{Result, failed, with_hint};
use serde::Serialize;

use super::Training;
use super::memory::FLOAT;
use super::optimizer::state_len;
use crate::config::TrainConfig;

/// Bytes of a checkpoint apart from its values: names, shapes, `state.json`.
const OVERHEAD: u64 = 1 << 14;
/// Checkpoints for which there must be room before the first step: the first, and the second while
/// the first is kept.
const FIRST: u64 = 2;

/// The space that a run takes on the disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DiskEstimate {
    /// A checkpoint: the weights, the optimizer's state, and the moving average where one is kept.
    pub checkpoint: u64,
    /// Checkpoints that are there at once, at most: those that are kept, the best, and the one that
    /// is being written.
    pub checkpoints: u64,
    /// The weights that `polyglow average` writes.
    pub average: u64,
    /// The ids of the training text.
    pub cache: u64,
    /// All of it.
    pub total: u64,
    /// Free space where the run is to be; `None` where the system does not report it.
    pub free: Option<u64>,
}

impl DiskEstimate {
    /// Estimates a training of a number of steps, with a validation set or without, whose ids take
    /// `cache` bytes on the disk, in a directory that need not exist yet.
    pub fn new(
        train: &TrainConfig,
        model: &impl Module,
        (steps, validates): (u64, bool),
        cache: u64,
        directory: &Path,
    ) -> Self {
        let checkpoint = checkpoint_bytes(state_len(&*super::rule(train), model), train, model);
        let saves = steps.div_ceil(train.save_every)
            + if validates {
                steps.div_ceil(train.validate_every)
            } else {
                0
            };
        let checkpoints = saves.min(train.keep_last as u64 + u64::from(validates)) + 1;
        let average = FLOAT * parameter::count(model) as u64;
        let total = checkpoints * checkpoint + average + cache;
        Self {
            checkpoint,
            checkpoints,
            average,
            cache,
            total,
            free: free_space(directory),
        }
    }
}

/// Computes the bytes of a checkpoint, with an optimizer that keeps `state_len` values.
fn checkpoint_bytes(state_len: usize, train: &TrainConfig, model: &impl Module) -> u64 {
    let weights = parameter::count(model);
    let average = if train.ema_decay > 0.0 { weights } else { 0 };
    FLOAT * (weights + state_len + average) as u64 + OVERHEAD
}

/// Makes sure that a training does not compute for hours what it cannot save: there is room for a
/// checkpoint and the next one together. A training that resumes has the first already.
pub(super) fn ensure_room(training: &Training, model: &impl Module) -> Result<()> {
    let train = &training.plan.config.train;
    let root = training.run.root();
    let Some(free) = free_space(root) else {
        return Ok(());
    };
    let state_len = state_len(&*(training.rule.make)(train), model);
    let checkpoint = checkpoint_bytes(state_len, train, model);
    let needed = checkpoint * if training.is_new()? { FIRST } else { 1 };
    if free >= needed {
        return Ok(());
    }
    let error = failed!(
        "the disk of `{}` is too full to save anything: a checkpoint takes {}, {} must be free for it and for the next one \
         beside it, and {} is",
        root.display(),
        Bytes(checkpoint),
        Bytes(needed),
        Bytes(free)
    );
    Err(with_hint(
        error,
        "make room, or train in a directory on another disk: `--run DIR`; no step was made",
    ))
}

/// Bytes for people: `512 KiB`, `12.3 MiB`, `4.5 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kibibytes = self.0 as f64 / 1024.0;
        match kibibytes {
            ..1024.0 => write!(formatter, "{kibibytes:.0} KiB"),
            ..1_048_576.0 => write!(formatter, "{:.1} MiB", kibibytes / 1024.0),
            _ => write!(formatter, "{:.1} GiB", kibibytes / 1_048_576.0),
        }
    }
}

/// Returns the bytes that may still be written below `path`, which need not exist yet; `None` where
/// the system does not report them.
#[cfg(unix)]
fn free_space(path: &Path) -> Option<u64> {
    let absolute = std::path::absolute(path).ok()?;
    let file_system = absolute
        .ancestors()
        .find_map(|directory| rustix::fs::statvfs(directory).ok())?;
    Some(file_system.f_bavail * file_system.f_frsize)
}

/// Returns `None`: this system does not report free space.
#[cfg(not(unix))]
fn free_space(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use polyglow_model::Vocabulary;

    use super::*;
    use crate::config::Config;

    #[test]
    fn checkpoints_are_counted_with_the_best_and_the_one_that_is_written() {
        let text = "data.corpus = 'digits'
            model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
            train = { max_steps = 100, save_every = 10, validate_every = 50, keep_last = 3, ema_decay = 0.9 }";
        let config = Config::from_text(text, &[]).expect("it is a config");
        let vocabulary = Vocabulary {
            src_size: 14,
            tgt_size: 14,
            shared: true,
            src_pad_id: 0,
            tgt_pad_id: 0,
            max_len: 8,
            image: None,
        };
        let model = config
            .model
            .shape(vocabulary)
            .expect("it is a shape")
            .init(1, &Device::default().autodiff());
        let weights = 4 * parameter::count(&model) as u64;
        let estimate = |steps, validates| {
            DiskEstimate::new(
                &config.train,
                &model,
                (steps, validates),
                1000,
                Path::new("not/there"),
            )
        };
        // Weights, two means of Adam, and the average.
        let checkpoint = 4 * weights + OVERHEAD;
        let long = estimate(100, true);
        assert_eq!(
            (long.checkpoint, long.checkpoints, long.average),
            (checkpoint, 5, weights)
        );
        assert_eq!(long.total, 5 * checkpoint + weights + 1000);
        assert_eq!(estimate(100, false).checkpoints, 4);
        assert_eq!(estimate(5, false).checkpoints, 2);
        #[cfg(unix)]
        assert!(long.free.is_some_and(|free| free > 0));
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let text = [2048, 3 << 20, 5 << 29].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(text, ["2 KiB", "3.0 MiB", "2.5 GiB"]);
    }
}
