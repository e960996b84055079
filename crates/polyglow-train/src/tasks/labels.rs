//! Labels of texts.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use polyglow_data::batch::LabelBatch;
use polyglow_data::sources::LabelSource;
use polyglow_model::{Model, Predict, Text};
use polyglow_predict::device::{upload, upload_rows};
use polyglow_predict::error::Result;
use polyglow_predict::tasks::labels;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    augments: true,
    ..TaskRow::built_in(&labels::FACTS, training)
};

/// The task of labeling texts.
pub struct Labels {
    source: Arc<LabelSource>,
    setting: Setting,
}

impl Labels {
    /// Learns from the texts of `source`.
    pub fn new(setting: Setting, source: LabelSource) -> Self {
        Self {
            source: Arc::new(source),
            setting,
        }
    }
}

impl Task for Labels {
    type Model = Model;
    type Source = LabelSource;
    type Inputs = (Text, Tensor<1, Int>);

    fn source(&self) -> &Arc<LabelSource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &LabelBatch) -> BatchSize {
        let rows = batch.labels.len();
        let bytes = ID_BYTES * (batch.texts.ids.len() + rows);
        let shape = BatchShape {
            rows,
            src_len: batch.texts.len,
            tgt_len: 1,
        };
        BatchSize {
            shape,
            real_positions: batch.texts.num_real() + rows,
            targets: rows,
            bytes,
        }
    }

    fn upload(&self, batch: &LabelBatch, device: &Device) -> Self::Inputs {
        let ids = upload_rows(&batch.texts, device);
        let labels = upload(batch.labels.clone(), 1, device).flatten(0, 1);
        (Text { ids }, labels)
    }

    fn loss(&self, model: &Model, (text, labels): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let pad_label = self.setting.tokenizers.tgt.special().pad;
        let prediction = Predict::<Text>::predict(model, text);
        prediction.loss(labels, smoothing, pad_label).into()
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
    let mut source = LabelSource::new(Arc::clone(data.text()?), setting.plan.batching())?;
    if let Some(augmentation) = setting.augmentation() {
        source = source.augmented(augmentation);
    }
    Ok(AnyTask::new(Labels::new(setting, source)))
}
