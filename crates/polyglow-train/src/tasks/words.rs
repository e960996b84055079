//! Word vectors: which words stand beside a word (skip-gram with negative sampling; Mikolov et al.,
//! 2013).

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use polyglow_data::batch::SkipGramBatch;
use polyglow_data::sources::SkipGramSource;
use polyglow_model::{Model, Predict, Words};
use polyglow_predict::device::upload;
use polyglow_predict::error::Result;
use polyglow_predict::tasks::words::words;

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TrainingData, Validation};
use crate::workload::BatchShape;

/// Learning word vectors.
pub struct WordVectors {
    source: Arc<SkipGramSource>,
    setting: Setting,
}

impl WordVectors {
    /// Learns from the skip-grams of `source`.
    pub fn new(setting: Setting, source: SkipGramSource) -> Self {
        Self {
            source: Arc::new(source),
            setting,
        }
    }
}

impl Task for WordVectors {
    type Model = Model;
    type Source = SkipGramSource;
    type Inputs = (Words, Tensor<1, Int>);

    fn source(&self) -> &Arc<SkipGramSource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        None
    }

    fn size(&self, batch: &SkipGramBatch) -> BatchSize {
        let (rows, targets) = (batch.centers.len(), batch.candidates.len());
        BatchSize {
            shape: BatchShape {
                rows,
                src_len: 1,
                tgt_len: batch.count,
            },
            real_positions: rows + targets,
            targets,
            bytes: ID_BYTES * (rows + 2 * targets),
        }
    }

    fn upload(&self, batch: &SkipGramBatch, device: &Device) -> Self::Inputs {
        (
            words(batch, device),
            upload(batch.is_real(), 1, device).flatten(0, 1),
        )
    }

    fn loss(&self, model: &Model, (words, is_real): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        Predict::<Words>::predict(model, words)
            .loss_without_padding(is_real, smoothing)
            .into()
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Makes the task from what has been prepared.
///
/// # Errors
/// The data does not suit it.
pub(super) fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let skip_grams = setting.plan.config.data.words();
    let cache = Arc::clone(data.text()?);
    let source = SkipGramSource::new(cache, setting.plan.batching(), skip_grams)?;
    Ok(AnyTask::new(WordVectors::new(setting, source)))
}
