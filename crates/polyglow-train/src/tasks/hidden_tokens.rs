//! Hidden tokens: which token stood where a text shows a mask (Devlin et al., 2019).

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batch::MaskedBatch;
use polyglow_data::sources::MaskedSource;
use polyglow_model::{Model, Predict, Targets, Text};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::Result;
use polyglow_predict::tasks::hidden_tokens;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow::built_in(&hidden_tokens::FACTS, training);

/// The task of predicting hidden tokens.
pub struct HiddenTokens {
    source: Arc<MaskedSource>,
    setting: Setting,
    pad_id: u32,
}

impl HiddenTokens {
    /// Learns from the texts of `source`.
    pub fn new(setting: Setting, source: MaskedSource) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_id,
        }
    }
}

impl Task for HiddenTokens {
    type Model = Model;
    type Source = MaskedSource;
    type Inputs = (Text, Targets);

    fn source(&self) -> &Arc<MaskedSource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &MaskedBatch) -> BatchSize {
        let MaskedBatch {
            shown,
            asked,
            num_asked,
            ..
        } = batch;
        let bytes = ID_BYTES * (shown.ids.len() + asked.len());
        let shape = BatchShape {
            rows: shown.num_rows(),
            src_len: shown.len,
            tgt_len: shown.len,
        };
        // Every token of the text is read, and counts once more as what is predicted, hidden or not.
        BatchSize {
            shape,
            real_positions: 2 * shown.num_real(),
            targets: *num_asked,
            bytes,
        }
    }

    fn upload(&self, batch: &MaskedBatch, device: &Device) -> Self::Inputs {
        let ids = upload_rows(&batch.shown, device);
        let targets = upload_targets(&batch.asked, self.pad_id, device);
        (Text { ids }, targets)
    }

    fn loss(&self, model: &Model, (text, targets): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let prediction = Predict::<Text>::predict(model, text);
        prediction.loss(targets, smoothing, self.pad_id).into()
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
    let source = MaskedSource::new(Arc::clone(data.text()?), setting.plan.batching())?;
    Ok(AnyTask::new(HiddenTokens::new(setting, source)))
}
