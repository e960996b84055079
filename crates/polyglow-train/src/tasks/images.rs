//! Labels of images.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_data::batch::ImageBatch;
use polyglow_data::image_set::ImageSet;
use polyglow_data::sources::ImageSource;
use polyglow_model::{Image, Model, Predict};
use polyglow_predict::device::upload;
use polyglow_predict::error::{Result, ensure};
use polyglow_predict::evaluation::Evaluation;
use polyglow_predict::runner::Runner;
use polyglow_predict::teacher_forcing::{Forced, at_targets};

use super::labels::{Guess, check_labels, guesses, label_ids, no_labels};
use super::{BatchSize, ID_BYTES, Loss, Setting, Task, Validation};
use crate::workload::BatchShape;

/// Learning what images are.
pub struct Images {
    source: Arc<ImageSource>,
    setting: Setting,
}

impl Images {
    /// Learns from the images of `source`.
    pub fn new(setting: Setting, source: ImageSource) -> Self {
        Self {
            source: Arc::new(source),
            setting,
        }
    }
}

impl Task for Images {
    type Model = Model;
    type Source = ImageSource;
    type Inputs = (Image, Tensor<1, Int>);

    fn source(&self) -> &Arc<ImageSource> {
        &self.source
    }

    fn size(&self, batch: &ImageBatch) -> BatchSize {
        let (rows, pixels) = (batch.labels.len(), batch.pixels.len());
        let shape = BatchShape {
            rows,
            src_len: pixels / rows.max(1),
            tgt_len: 1,
        };
        BatchSize {
            shape,
            real_positions: pixels + rows,
            targets: rows,
            bytes: ID_BYTES * (pixels + rows),
        }
    }

    fn upload(&self, batch: &ImageBatch, device: &Device) -> Self::Inputs {
        let labels = upload(batch.labels.clone(), 1, device).flatten(0, 1);
        (image(&batch.pixels, batch.labels.len(), device), labels)
    }

    fn loss(&self, model: &Model, (image, labels): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        Predict::<Image>::predict(model, image)
            .loss(labels, smoothing, self.setting.tokenizers.tgt.special().pad)
            .into()
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Brings images to a device: a row of bytes each.
fn image(pixels: &[u8], rows: usize, device: &Device) -> Image {
    let values: Vec<i32> = pixels.iter().map(|&byte| i32::from(byte)).collect();
    Image {
        pixels: Tensor::from_data(
            TensorData::new(values, [rows, pixels.len() / rows.max(1)]),
            device,
        ),
    }
}

/// Scores the labels of images under the models.
///
/// # Errors
/// The models do not know the label of an image.
pub(super) fn evaluate(runner: &Runner, images: &ImageSet) -> Result<Evaluation> {
    check_sizes(runner, images.height * images.width * images.channels)?;
    let names: Vec<&str> = images
        .label_ids
        .iter()
        .map(|&id| images.labels.names()[id as usize].as_str())
        .collect();
    check_labels(&names, &runner.tgt)?;
    let labels = label_ids(&names, &runner.tgt)?;
    let rows: Vec<(&[u8], i32)> = (0..images.len())
        .map(|index| (images.example(index).pixels, labels[index]))
        .collect();
    let never = no_labels(runner.tgt.special());
    let forced = runner.shortest_first(
        &rows,
        |(pixels, _)| pixels.len() + 1,
        |rows| {
            let pixels: Vec<&[u8]> = rows.iter().map(|(pixels, _)| *pixels).collect();
            let labels = rows.iter().map(|(_, label)| *label).collect();
            let found = at_targets(&log_probs(runner, &pixels), labels, 1, None, &never);
            Ok(found.iter().map(|row| Forced::new(row)).collect())
        },
    )?;
    Ok(Evaluation::of_forced(forced).with_accuracy())
}

fn log_probs(runner: &Runner, images: &[&[u8]]) -> Tensor<2> {
    let inputs = image(&images.concat(), images.len(), &runner.device);
    runner.log_probs(|_, member| Predict::<Image>::predict(&member.model, inputs.clone()).logits())
}

/// Makes sure that the models read images of this many bytes.
fn check_sizes(runner: &Runner, num_bytes: usize) -> Result<()> {
    for member in &*runner.members {
        let wanted = member
            .model
            .vocabulary()
            .image
            .map_or(0, |image| image.num_bytes());
        ensure!(
            num_bytes == wanted,
            "an image has {num_bytes} bytes, and a model reads {wanted}: `data.images` must be as it was in training"
        );
    }
    Ok(())
}

/// The most probable label of every image, each of which is as many bytes as the models read.
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
