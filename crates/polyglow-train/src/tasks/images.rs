//! Labels of images.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use polyglow_data::batch::ImageBatch;
use polyglow_data::config::DataConfig;
use polyglow_data::sources::ImageSource;
use polyglow_model::{Image, Model, Predict};
use polyglow_predict::device::upload;
use polyglow_predict::error::{Result, bail, ensure};
use polyglow_predict::tasks::images::{self, upload_images};

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::config::Config;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    check,
    ..TaskRow::built_in(&images::FACTS, training)
};

/// The task of labeling images.
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

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &ImageBatch) -> BatchSize {
        let rows = batch.labels.len();
        let pixels = batch.pixels.len();
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
        let rows = batch.labels.len();
        let labels = upload(batch.labels.clone(), 1, device).flatten(0, 1);
        (upload_images(&batch.pixels, rows, device), labels)
    }

    fn loss(&self, model: &Model, (image, labels): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let pad_label = self.setting.tokenizers.tgt.special().pad;
        let prediction = Predict::<Image>::predict(model, image);
        prediction.loss(labels, smoothing, pad_label).into()
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

fn check(config: &Config) -> Result<()> {
    let max_len = config.data.max_len;
    ensure!(
        max_len == DataConfig::default().max_len,
        "`data.max_len = {max_len}`: images have one size, `data.images.size`; leave it out"
    );
    if let Some(key) = config.tokenizer.segmentation().key() {
        bail!("`{key}`: images are not tokenized; leave it out");
    }
    Ok(())
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let TrainingData::Images {
        images,
        labels,
        parts,
    } = data
    else {
        bail!("image models are trained on images");
    };
    let source = ImageSource::new(
        Arc::clone(images),
        Arc::clone(labels),
        parts.clone(),
        setting.plan.batching(),
        setting.plan.config.data.images().augment,
    );
    Ok(AnyTask::new(Images::new(setting, source)))
}
