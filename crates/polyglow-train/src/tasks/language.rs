//! Language models: the next token of a text.

mod counting;

use std::any::TypeId;
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batch::TextBatch;
use polyglow_data::sources::{BatchSource, LineSource, WindowSource};
use polyglow_model::{Model, Predict, Targets, Text};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Result, TrainError, bail};
use polyglow_predict::tasks::language;

pub use self::counting::{NgramScores, ngram_scores};
use super::{
    AnyTask, BatchSize, ID_BYTES, Loss, OwnKey, Setting, Task, TaskRow, TrainingData, Validation,
};
use crate::config::Config;
use crate::train::short_type_name;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    check,
    own_key: Some(OwnKey {
        is_given: |config| config.data.context_len.is_some(),
        refusal: "`data.context_len` belongs to language models, which read text of one side",
    }),
    augments: true,
    ..TaskRow::built_in(&language::FACTS, training)
};

/// The task of predicting the next token of a text. Whether the text is read line by line or in
/// windows depends on the source of batches.
pub struct Language<S> {
    source: Arc<S>,
    setting: Setting,
    pad_id: u32,
}

impl<S> Language<S> {
    /// Learns from the batches of `source`.
    pub fn new(setting: Setting, source: S) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_id,
        }
    }
}

impl<S: BatchSource<Batch = TextBatch, Error: Into<TrainError>>> Task for Language<S> {
    type Model = Model;
    type Source = S;
    type Inputs = (Text, Targets);

    fn source(&self) -> &Arc<S> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        // A source of the caller's own is a part that the config does not name.
        let built_in = [TypeId::of::<LineSource>(), TypeId::of::<WindowSource>()];
        let is_built_in = built_in.contains(&TypeId::of::<S>());
        (!is_built_in).then(short_type_name::<Self>)
    }

    fn size(&self, batch: &TextBatch) -> BatchSize {
        let targets = batch.targets.num_real();
        let shape = BatchShape {
            rows: batch.inputs.num_rows(),
            src_len: 0,
            tgt_len: batch.inputs.len,
        };
        let bytes = ID_BYTES * (batch.inputs.ids.len() + batch.targets.ids.len());
        BatchSize {
            shape,
            real_positions: targets,
            targets,
            bytes,
        }
    }

    fn upload(&self, batch: &TextBatch, device: &Device) -> Self::Inputs {
        let ids = upload_rows(&batch.inputs, device);
        let targets = upload_targets(&batch.targets.ids, self.pad_id, device);
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

fn check(config: &Config) -> Result<()> {
    if let (Some(_), Some(key)) = (
        config.data.context_len,
        config.tokenizer.segmentation().key(),
    ) {
        bail!(
            "`{key}`: the windows of `data.context_len` are cut before words are segmented; leave it out"
        );
    }
    Ok(())
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let cache = Arc::clone(data.text()?);
    let batching = setting.plan.batching();
    if let Some(context_len) = setting.plan.config.data.context_len {
        let source = WindowSource::new(cache, batching, context_len)?;
        return Ok(AnyTask::new(Language::new(setting, source)));
    }
    let mut source = LineSource::new(cache, batching)?;
    if let Some(augmentation) = setting.augmentation() {
        source = source.augmented(augmentation);
    }
    Ok(AnyTask::new(Language::new(setting, source)))
}
