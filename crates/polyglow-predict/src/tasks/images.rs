//! Labels of images: classification and its scores with a trained model.

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_data::config::{Content, ImageConfig};
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Image, Predict, Task};

use super::labels::confusion::label_scores;
use super::labels::{Guess, check_labels, guesses, label_ids, no_labels};
use super::{Examples, LabeledImage, Reads, TaskFacts, TaskUse};
use crate::error::{Result, ensure};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::ACCURACY;
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Images,
    name: "labels of images",
    content: Content::IMAGES,
    reads: Reads::Image,
    writes: false,
    scores: &[ACCURACY],
    examples: "examples",
    does: "gives labels",
    advice: "`polyglow classify` says what something is, `polyglow evaluate` scores it",
    command: "classify {run} IMAGE.png",
    note: "",
    hub_tag: "image-classification",
    description: "A Vision Transformer that labels images",
};

/// Models that label images.
#[derive(Clone, Copy, Debug)]
pub struct Images {
    /// The size and the channels that images are read with.
    pub images: ImageConfig,
}

impl TaskUse for Images {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn images(&self) -> Option<ImageConfig> {
        Some(self.images)
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        _: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.images()?)
    }

    fn check_held_out(&self, tgt: &Tokenizer, examples: &Examples) -> Result<()> {
        let images = examples.images()?;
        let names: Vec<&str> = images.iter().map(|image| image.label).collect();
        check_labels(&names, tgt)
    }
}

/// Brings images of the same size to a device: `pixels` has the bytes of one after the other.
///
/// # Shapes
/// - output: `[rows, bytes of an image]`
pub fn upload_images(pixels: &[u8], rows: usize, device: &Device) -> Image {
    let values: Vec<i32> = pixels.iter().map(|&byte| i32::from(byte)).collect();
    let shape = [rows, pixels.len() / rows.max(1)];
    Image {
        pixels: Tensor::from_data(TensorData::new(values, shape), device),
    }
}

/// Scores the labels of images under the models.
///
/// # Errors
/// The models do not know the label of an image.
pub(crate) fn evaluate(runner: &Runner, images: &[LabeledImage]) -> Result<Evaluation> {
    check_sizes(runner, images.first().map_or(0, |image| image.pixels.len()))?;
    let names: Vec<&str> = images.iter().map(|image| image.label).collect();
    check_labels(&names, &runner.tgt)?;
    let labels = label_ids(&names, &runner.tgt)?;
    let pixels = images.iter().map(|image| image.pixels);
    let rows: Vec<(&[u8], i32)> = pixels.zip(labels).collect();
    let never = no_labels(runner.tgt.special());
    let forced = runner.shortest_first(
        &rows,
        |(pixels, _)| pixels.len() + 1,
        |rows| {
            let pixels: Vec<&[u8]> = rows.iter().map(|(pixels, _)| *pixels).collect();
            let labels = rows.iter().map(|(_, label)| *label).collect();
            let predicted = at_targets(&log_probs(runner, &pixels), labels, 1, None, &never);
            Ok(predicted.iter().map(|row| Forced::new(row)).collect())
        },
    )?;
    let evaluation = Evaluation::from_forced(forced).with_accuracy();
    let scores = label_scores(&runner.tgt, &names, evaluation.first.iter().flatten())?;
    Ok(evaluation.with_labels(scores))
}

fn log_probs(runner: &Runner, images: &[&[u8]]) -> Tensor<2> {
    let inputs = upload_images(&images.concat(), images.len(), &runner.device);
    runner.log_probs(|_, member| Predict::<Image>::predict(&member.model, inputs.clone()).logits())
}

/// Makes sure that the models read images of this many bytes.
fn check_sizes(runner: &Runner, num_bytes: usize) -> Result<()> {
    for member in &*runner.members {
        let image = member.model.vocabulary().image;
        let expected = image.map_or(0, |image| image.num_bytes());
        ensure!(
            num_bytes == expected,
            "an image has {num_bytes} bytes, and a model reads {expected}: `data.images` must be as it was in training"
        );
    }
    Ok(())
}

/// Returns the most probable label of every image, each of which has as many bytes as the models
/// read.
///
/// # Errors
/// There is no label, or an image is of another size.
pub fn classify(runner: &Runner, images: &[&[u8]]) -> Result<Vec<Guess>> {
    runner.shortest_first(
        images,
        |pixels| pixels.len() + 1,
        |images| {
            let pixels: Vec<&[u8]> = images.iter().map(|pixels| **pixels).collect();
            guesses(log_probs(runner, &pixels), &runner.tgt)
        },
    )
}
