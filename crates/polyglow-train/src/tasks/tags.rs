//! Tags of words.

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batch::TagBatch;
use polyglow_data::sources::TagSource;
use polyglow_model::{Model, Predict, Targets, Text};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::Result;
use polyglow_predict::tasks::tags;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow::built_in(&tags::FACTS, training);

/// The task of tagging the words of texts.
pub struct Tags {
    source: Arc<TagSource>,
    setting: Setting,
    pad_tag: u32,
}

impl Tags {
    /// Learns from the texts of `source`.
    pub fn new(setting: Setting, source: TagSource) -> Self {
        let pad_tag = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_tag,
        }
    }
}

impl Task for Tags {
    type Model = Model;
    type Source = TagSource;
    type Inputs = (Text, Targets);

    fn source(&self) -> &Arc<TagSource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &TagBatch) -> BatchSize {
        let TagBatch {
            texts,
            tags,
            num_tags,
        } = batch;
        BatchSize {
            shape: BatchShape {
                rows: texts.num_rows(),
                src_len: texts.len,
                tgt_len: texts.len,
            },
            real_positions: texts.num_real() + num_tags,
            targets: *num_tags,
            bytes: ID_BYTES * (texts.ids.len() + tags.len()),
        }
    }

    fn upload(&self, batch: &TagBatch, device: &Device) -> Self::Inputs {
        let ids = upload_rows(&batch.texts, device);
        let tags = upload_targets(&batch.tags, self.pad_tag, device);
        (Text { ids }, tags)
    }

    fn loss(&self, model: &Model, (text, tags): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let prediction = Predict::<Text>::predict(model, text);
        prediction.loss(tags, smoothing, self.pad_tag).into()
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let source = TagSource::new(Arc::clone(data.text()?), setting.plan.batching())?;
    Ok(AnyTask::new(Tags::new(setting, source)))
}
