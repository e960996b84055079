//! Word vectors: which words stand next to a word (skip-gram with negative sampling; Mikolov et al.,
//! 2013).

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use polyglow_data::batch::SkipGramBatch;
use polyglow_data::sources::SkipGramSource;
use polyglow_model::{Model, Precision, Predict, Words};
use polyglow_predict::device::upload;
use polyglow_predict::error::{Result, bail, ensure};
use polyglow_predict::tasks::words::{self, upload_words};

use super::{
    AnyTask, BatchSize, ID_BYTES, Loss, OwnKey, Setting, Task, TaskRow, TrainingData, Validation,
};
use crate::config::Config;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    check,
    own_key: Some(OwnKey {
        is_given: |config| config.data.words.is_some(),
        refusal: "`[data.words]` belongs to word vectors, `model.arch = \"skipgram\"`",
    }),
    ..TaskRow::built_in(&words::FACTS, training)
};

/// The task of predicting the words around a word, by which word vectors are learned.
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
        let rows = batch.centers.len();
        let targets = batch.candidates.len();
        BatchSize {
            shape: BatchShape {
                rows,
                src_len: 1,
                tgt_len: batch.count,
            },
            real_positions: rows + targets,
            targets,
            // Each candidate is sent with whether it is the real word.
            bytes: ID_BYTES * (rows + 2 * targets),
        }
    }

    fn upload(&self, batch: &SkipGramBatch, device: &Device) -> Self::Inputs {
        let is_real = upload(batch.is_real(), 1, device).flatten(0, 1);
        (upload_words(batch, device), is_real)
    }

    fn loss(&self, model: &Model, (words, is_real): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        let prediction = Predict::<Words>::predict(model, words);
        prediction.loss_without_padding(is_real, smoothing).into()
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

fn check(config: &Config) -> Result<()> {
    let smoothing = config.train.label_smoothing;
    ensure!(
        smoothing == 0.0,
        "`train.label_smoothing = {smoothing}`: word vectors are trained without label smoothing; set it to 0 (the default is 0.1)"
    );
    if let Some(key) = config.tokenizer.segmentation().key() {
        bail!("`{key}`: word vectors are learned for whole words; leave it out");
    }
    ensure!(
        config.train.precision == Precision::F32,
        "`train.precision`: training word vectors has no matrix products, which it would round; set it to `\"f32\"`"
    );
    Ok(())
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let skip_grams = setting.plan.config.data.words();
    let cache = Arc::clone(data.text()?);
    let source = SkipGramSource::new(cache, setting.plan.batching(), skip_grams)?;
    Ok(AnyTask::new(WordVectors::new(setting, source)))
}
