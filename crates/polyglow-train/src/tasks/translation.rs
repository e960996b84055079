//! Translation: the target, given the source.

pub mod alignment;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_data::augmentation::Augmentation;
use polyglow_data::batch::PairBatch;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::random::Random;
use polyglow_data::sources::{BatchSource, PairSource};
use polyglow_model::{Generate, Model, Pair as Inputs, Predict, Targets, alignment_loss};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::error::{Result, TrainError};
use polyglow_predict::tasks::translation::{self, evaluate};

use super::{AnyTask, BatchSize, ID_BYTES, Loss, Setting, Task, TaskRow, TrainingData, Validation};
use crate::train::short_type_name;
use crate::workload::BatchShape;

/// The row of this task.
pub(super) const TRAINING: TaskRow = TaskRow {
    augments: true,
    ..TaskRow::built_in(&translation::FACTS, training)
};

/// The task of translating, for any model that predicts pairs and can be searched, and any source
/// of pairs.
pub struct Translation<M = polyglow_model::Model, S = PairSource> {
    source: Arc<S>,
    setting: Setting,
    pad_id: u32,
    /// The name of an augmentation of the caller's own.
    augmentation: Option<String>,
    model: PhantomData<fn() -> M>,
}

impl<M> Translation<M> {
    /// Makes the task of translating the pairs in `cache`.
    ///
    /// # Errors
    /// The config asks for new segmentations of words of which the tokenizer is not capable.
    pub fn new(setting: Setting, cache: Arc<IdCache>) -> Result<Self> {
        let links = setting.plan.config.train.alignment_weight > 0.0;
        let mut source = PairSource::new(cache, setting.plan.batching(), links)?;
        if let Some(augmentation) = setting.augmentation() {
            source = source.augmented(augmentation);
        }
        Ok(Self::from_source(setting, source))
    }

    /// Changes each example by `augment` before it is trained on: it is called with the example and
    /// with random numbers that follow from the seed of the run, the epoch and the example, so that
    /// a training that was stopped makes the same changes when it is resumed. See [`Augmentation`]
    /// for what becomes of longer examples.
    ///
    /// The run keeps `name`, in which settings may stand, and is resumed only with an augmentation
    /// of the same name.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use polyglow_model::Model;
    /// # use polyglow_train::tasks::translation::Translation;
    /// # use polyglow_train::{Config, Ending, Silent, Stop, Training};
    /// # let text = "data.corpus = 'digits'
    /// #     tokenizer.kind = 'word'
    /// #     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
    /// #     train = { max_steps = 2, max_tokens = 200 }";
    /// # let dir = tempfile::tempdir()?;
    /// # let config = Config::from_text(text, &[])?;
    /// let training = Training::prepare(config, dir.path(), &mut Silent)?;
    /// let cache = Arc::clone(training.data.text()?);
    /// let task = Translation::<Model>::new(training.setting()?, cache)?;
    /// // Drops the first token of every second source.
    /// let task = task.augmented("without the first", |example, random| {
    ///     if random.uniform() < 0.5 {
    ///         example.src.remove(0);
    ///     }
    /// });
    /// let shape = training.plan.model_shape(&training.tokenizers)?;
    /// training.run_with(&task, |device| shape.init(1, device), &Stop::default(), &mut Silent)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn augmented(
        mut self,
        name: &str,
        augment: impl Fn(&mut Example, &mut Random) + Send + Sync + 'static,
    ) -> Self {
        let augmentation =
            Augmentation::new(name, move |example, random, _| augment(example, random));
        let source = Arc::unwrap_or_clone(self.source);
        self.source = Arc::new(source.augmented(augmentation));
        self.augmentation = Some(name.to_owned());
        self
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
            augmentation: None,
            model: PhantomData,
        }
    }
}

/// A batch of pairs on the device.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// The input of the model.
    pub inputs: Inputs,
    /// The ids that are predicted, `[batch * tgt_len]`.
    pub targets: Targets,
    /// The share of attention that each target position is to give to each source position,
    /// `[batch, tgt_len, src_len]`; `None` without guided alignment.
    pub gold_attention: Option<Tensor<3>>,
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
        match &self.augmentation {
            Some(name) => Some(format!("{} with {name}", short_type_name::<Self>())),
            None => (!is_built_in).then(short_type_name::<Self>),
        }
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
