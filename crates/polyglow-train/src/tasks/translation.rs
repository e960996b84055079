//! Translation: the target, given the source.

pub mod alignment;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_data::batch::PairBatch;
use polyglow_data::id_cache::IdCache;
use polyglow_data::sources::{BatchSource, PairSource};
use polyglow_model::{Generate, Model, Pair as Inputs, Predict, Targets, alignment_loss};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Result, TrainError};
use polyglow_predict::tasks::translation::{self, evaluate};

use super::{
    AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TrainingData, TrainingHalf, Validation,
};
use crate::train::short_type_name;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TrainingHalf = TrainingHalf {
    facts: &translation::FACTS,
    make: training,
    check: |_| Ok(()),
    own_key: None,
};

/// The task of translating, for any model that predicts pairs and can be searched, and any source
/// of pairs.
pub struct Translation<M = polyglow_model::Model, S = PairSource> {
    source: Arc<S>,
    setting: Setting,
    pad_id: u32,
    model: PhantomData<fn() -> M>,
}

impl<M> Translation<M> {
    /// Makes the task of translating the pairs in `cache`.
    ///
    /// # Errors
    /// The config asks for BPE dropout with a tokenizer that is not plain BPE.
    pub fn new(setting: Setting, cache: Arc<IdCache>) -> Result<Self> {
        let links = setting.plan.config.train.alignment_weight > 0.0;
        let source = PairSource::new(cache, setting.plan.batching(), links)?;
        Ok(Self::from_source(setting, source))
    }
}

impl<M, S> Translation<M, S> {
    /// Makes the task of translating the pairs of a source.
    pub fn from_source(setting: Setting, source: S) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self {
            source: Arc::new(source),
            setting,
            pad_id,
            model: PhantomData,
        }
    }
}

/// A batch of pairs on the device.
pub struct Pairs {
    inputs: Inputs,
    /// The ids that are predicted, `[batch * tgt_len]`.
    targets: Targets,
    /// The share of attention that each target position is to give to each source position,
    /// `[batch, tgt_len, src_len]`; `None` without guided alignment.
    gold_attention: Option<Tensor<3>>,
}

impl<M, S> Task for Translation<M, S>
where
    M: Predict<Inputs> + Generate + 'static,
    S: BatchSource<Batch = PairBatch, Error: Into<TrainError>>,
{
    type Model = M;
    type Source = S;
    type Inputs = Pairs;

    fn source(&self) -> &Arc<S> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        // A source of the caller's own is a part that the config does not name.
        let is_built_in = TypeId::of::<S>() == TypeId::of::<PairSource>();
        (!is_built_in).then(short_type_name::<Self>)
    }

    fn size(&self, batch: &PairBatch) -> BatchSize {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            gold_attention,
        } = batch;
        let num_values = src.ids.len() + tgt_in.ids.len() + tgt_out.ids.len();
        let bytes = ID_BYTES * (num_values + gold_attention.as_ref().map_or(0, Vec::len));
        let targets = tgt_out.num_real();
        let shape = BatchShape {
            rows: src.num_rows(),
            src_len: src.len,
            tgt_len: tgt_out.len,
        };
        BatchSize {
            shape,
            real_positions: src.num_real() + targets,
            targets,
            bytes,
        }
    }

    fn upload(&self, batch: &PairBatch, device: &Device) -> Pairs {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            gold_attention,
        } = batch;
        let shape = [src.num_rows(), tgt_out.len, src.len];
        let gold_attention = gold_attention
            .as_ref()
            .map(|gold| Tensor::from_data(TensorData::new(gold.clone(), shape), device));
        let inputs = Inputs {
            src: upload_rows(src, device).into(),
            tgt_in: upload_rows(tgt_in, device),
        };
        Pairs {
            inputs,
            targets: upload_targets(&tgt_out.ids, self.pad_id, device),
            gold_attention,
        }
    }

    fn loss(&self, model: &M, batch: Pairs) -> Loss {
        let Pairs {
            inputs,
            targets,
            gold_attention,
        } = batch;
        let train = &self.setting.plan.config.train;
        let smoothing = train.label_smoothing;
        let Some(gold) = gold_attention else {
            let prediction = model.predict(inputs);
            return prediction.loss(targets, smoothing, self.pad_id).into();
        };
        let (prediction, attention) = model.predict_aligned(inputs);
        let mut loss = Loss::from(prediction.loss(targets, smoothing, self.pad_id));
        // Only what is minimized: reports and validations compare losses with and without guidance.
        if let Some(attention) = attention {
            let guided = alignment_loss(attention, gold) * train.alignment_weight;
            loss.minimized = loss.minimized + guided;
        }
        loss
    }

    fn uniform_loss(&self) -> Option<f64> {
        Some(self.setting.uniform_loss())
    }

    fn validate(&self, model: M) -> Result<Option<Validation>> {
        let pairs = self.setting.valid.pairs();
        if pairs.is_empty() {
            return Ok(None);
        }
        let options = self.setting.bleu.clone().into();
        let evaluation = evaluate(&self.setting.runner(model), pairs, &options)?;
        Ok(Some(Validation::new(evaluation, pairs)))
    }
}

/// Makes the task from the setting of a training and its prepared data.
///
/// # Errors
/// The data is of another kind than the task reads, or the config does not suit it.
fn training(setting: Setting, data: &TrainingData) -> Result<AnyTask<Model>> {
    let cache = Arc::clone(data.text()?);
    Ok(AnyTask::new(Translation::<Model>::new(setting, cache)?))
}
