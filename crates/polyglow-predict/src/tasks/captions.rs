//! Captions, written by a trained model: translations whose source is an image.

use polyglow_data::config::{Content, DataConfig, ImageConfig};
use polyglow_data::pair::Pair;
use polyglow_metrics::Measure;
use polyglow_model::{ModelConfig, Task};

use super::{Examples, Reads, TaskFacts, TaskUse, translation};
use crate::error::Result;
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::TOKEN_ACCURACY;
use crate::runner::Runner;
use crate::teacher_forcing::Forced;

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Captions,
    name: "captions of images",
    content: Content::CAPTIONS,
    reads: Reads::ImageAndTarget,
    writes: true,
    scores: &[
        Measure::BLEU,
        Measure::CHRF,
        Measure::EXACT_MATCH,
        TOKEN_ACCURACY,
    ],
    examples: "captions",
    does: "describes images",
    advice: "`polyglow caption` says what is on an image, `polyglow evaluate` scores it",
    command: "caption {run} IMAGE.png",
    note: "",
    hub_tag: "image-to-text",
    description: "A model that describes images",
};

/// Models that describe images.
#[derive(Clone, Copy, Debug)]
pub struct Captions {
    /// The size and the channels that images are read with.
    pub images: ImageConfig,
    /// The number of patches that an image is cut into: the positions that it takes up in a batch.
    pub num_patches: usize,
}

impl Captions {
    /// Makes the task from the tables of a config.
    pub fn new(model: &ModelConfig, data: &DataConfig) -> Self {
        let images = data.images();
        // Patches that do not divide the images are refused with the model.
        let patch_size = model.patch_size.unwrap_or(1).max(1);
        let num_patches = images.size.iter().map(|side| side / patch_size).product();
        Self {
            images,
            num_patches,
        }
    }
}

impl TaskUse for Captions {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn images(&self) -> Option<ImageConfig> {
        Some(self.images)
    }

    fn source_positions(&self) -> Option<usize> {
        Some(self.num_patches)
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        options: &EvaluationOptions,
    ) -> Result<Evaluation> {
        translation::evaluate(runner, examples.pairs()?, options)
    }

    fn teacher_forced(&self, runner: &Runner, pairs: &[Pair]) -> Result<Vec<Forced>> {
        translation::teacher_forced(runner, pairs)
    }
}
