//! The time that a validation takes, from one of a part of the set.

use std::sync::Arc;
use std::time::Instant;

use polyglow_model::{Model, ModelShape};
use polyglow_train::tasks::{AnyTask, HeldOut, Setting, Task, TrainingData, configured};
use polyglow_train::{Plan, Result};
use tracing::subscriber::{NoSubscriber, with_default};

/// Held-out examples that are tried at first.
const FEW: usize = 32;
/// The factor by which more are tried next, if that was quick.
const MORE: usize = 8;
/// Seconds that are quick.
const QUICK: f64 = 0.5;

/// Seconds of a validation, from one of a part of the set by an untrained model; none where there
/// is no set.
///
/// An untrained model rarely ends a sentence, so its searches are limited to about the length of
/// the references.
pub(in crate::inspection) fn time_validation(
    setting: &Setting,
    data: &TrainingData,
    shape: &ModelShape,
    lens: [f64; 2],
) -> Result<Option<f64>> {
    let all = setting.valid.len();
    // What is allowed for an image is a multiple of the longest caption.
    let src = if setting.plan.task.facts().describes_images() {
        setting.longest as f64
    } else {
        lens[0]
    };
    let (allowed, factor) = allowance([src, lens[1]]);
    let mut examples = FEW;
    loop {
        let mut part = setting.clone();
        part.valid = Arc::new(spread(&setting.valid, examples));
        (
            part.plan.config.search.max_len_ratio,
            part.plan.config.search.min_len_ratio,
        ) = (allowed, 0.0);
        let tried = part.valid.len();
        if tried == 0 {
            return Ok(None);
        }
        let task = configured(part, data)?;
        match seconds(&task, &setting.plan, shape) {
            Ok(seconds) if seconds > QUICK || tried == all => {
                return Ok(Some(seconds * factor * all as f64 / tried as f64));
            }
            // A part may have nothing to score where the whole has.
            Err(error) if tried == all => return Err(error),
            _ => {}
        }
        examples *= MORE;
    }
}

/// The `search.max_len_ratio` with which outputs have about the length of references, and what
/// times are to be multiplied with since 10 tokens are added to it, from the mean lengths of
/// sources and targets in tokens.
fn allowance([src, tgt]: [f64; 2]) -> (f64, f64) {
    const ADDED: f64 = 10.0;
    let ratio = ((tgt + 1.0 - ADDED) / src.max(1.0)).clamp(0.01, 100.0);
    (ratio, ((tgt + 1.0) / (ratio * src + ADDED)).min(1.0))
}

/// Takes about `examples` examples of a set, evenly spread over it; of images the first.
fn spread(all: &HeldOut, examples: usize) -> HeldOut {
    match all {
        HeldOut::Text(pairs) => {
            let stride = pairs.len().div_ceil(examples.max(1)).max(1);
            HeldOut::Text(pairs.iter().step_by(stride).cloned().collect())
        }
        HeldOut::Images(images) if images.len() > examples => {
            HeldOut::Images(Arc::new((**images).clone().first(examples)))
        }
        HeldOut::Images(images) => HeldOut::Images(Arc::clone(images)),
    }
}

/// Times a validation by an untrained model.
fn seconds(task: &AnyTask<Model>, plan: &Plan, shape: &ModelShape) -> Result<f64> {
    let model = shape.init(plan.config.seed, &plan.device);
    let started = Instant::now();
    // Its warnings would number the lines of a part of the set, and come again in the training.
    with_default(NoSubscriber::default(), || task.validate(model))?;
    plan.device.sync()?;
    Ok(started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use polyglow_data::pair::Pair;

    use super::*;

    #[test]
    fn a_search_may_write_as_much_as_references_have() {
        let (ratio, factor) = allowance([10.0, 19.0]);
        assert!((ratio - 1.0).abs() < 1e-9 && (factor - 1.0).abs() < 1e-9);
        // Shorter references than the ten tokens that every search may write.
        let (ratio, factor) = allowance([5.0, 4.0]);
        assert!(ratio > 0.0 && (factor - 5.0 / 10.05).abs() < 1e-9);
    }

    #[test]
    fn a_part_of_a_set_is_spread_over_it() {
        let pair = |line: u32| Pair {
            src: line.to_string(),
            tgt: String::new(),
        };
        let all = HeldOut::Text((0..100).map(pair).collect());
        let part = spread(&all, 32);
        let lines: Vec<&str> = part.pairs().iter().map(|pair| &*pair.src).collect();
        assert_eq!((lines.len(), lines[1], lines[24]), (25, "4", "96"));
        assert_eq!(spread(&all, 1000).len(), 100);
    }
}
