//! The material of a measurement: a task with batches of several lengths, and the shape of its
//! model.

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batch::PairBatch;
use polyglow_data::batching::EpochPlan;
use polyglow_data::error::DataError;
use polyglow_data::sources::BatchSource;
use polyglow_model::{Inputs, Model, ModelShape, Pair, Predict, Targets, Text, Vocabulary};
use polyglow_predict::device::{upload_rows, upload_targets};
use polyglow_predict::tasks::Reads;
use polyglow_train::Plan;
use polyglow_train::tasks::{BatchSize, Loss, MicroBatch, Task};
use polyglow_train::workload::{BatchShape, SPECIAL};

/// Batch lengths taken from a corpus, from its shortest batches to its longest.
const NUM_BUCKETS: usize = 5;

/// Random sentences without padding, as batches of given shapes.
pub struct RandomSource {
    shapes: Vec<BatchShape>,
    vocab_size: usize,
}

impl BatchSource for RandomSource {
    type Batch = PairBatch;
    type Error = DataError;

    fn plan(&self, _: u64) -> Result<EpochPlan, DataError> {
        Ok(EpochPlan::of_batches(
            (0..self.shapes.len() as u32).map(|item| vec![item]),
        ))
    }

    fn batch(&self, _: u64, items: &[u32]) -> Result<PairBatch, DataError> {
        Ok(self.shapes[items[0] as usize].random_pairs(self.vocab_size))
    }

    /// Its rows in as many parts.
    fn shards(&self, _: u64, items: &[u32], count: usize) -> Result<Vec<PairBatch>, DataError> {
        let shape = self.shapes[items[0] as usize];
        let count = count.min(shape.rows).max(1);
        let rows =
            (0..count).map(|part| (part + 1) * shape.rows / count - part * shape.rows / count);
        Ok(rows
            .map(|rows| BatchShape { rows, ..shape }.random_pairs(self.vocab_size))
            .collect())
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let BatchShape {
            rows,
            src_len,
            tgt_len,
        } = self.shapes[items[0] as usize];
        ([rows, src_len, tgt_len], rows * (src_len + tgt_len))
    }
}

/// Learning from random sentences: to translate, or as a language model.
pub struct RandomPairs {
    source: Arc<RandomSource>,
    reads: Reads,
    label_smoothing: f64,
}

impl RandomPairs {
    /// Sentences of these shapes for the model of a plan, and the shape of that model, with a
    /// shared vocabulary.
    ///
    /// # Errors
    /// A size does not fit another.
    pub fn new(
        plan: &Plan,
        shapes: &[BatchShape],
        vocab_size: usize,
    ) -> anyhow::Result<(Self, ModelShape)> {
        let longest = shapes
            .iter()
            .map(|shape| shape.src_len.max(shape.tgt_len))
            .max()
            .unwrap_or(1);
        let vocabulary = Vocabulary {
            src_size: vocab_size,
            tgt_size: vocab_size,
            shared: true,
            src_pad_id: SPECIAL.pad,
            tgt_pad_id: SPECIAL.pad,
            max_len: longest,
            image: None,
        };
        let train = &plan.config.train;
        let model = plan
            .config
            .model
            .shape(vocabulary)?
            .with_precision(train.precision);
        let source = Arc::new(RandomSource {
            shapes: shapes.to_vec(),
            vocab_size,
        });
        Ok((
            Self {
                source,
                reads: plan.task.facts().reads,
                label_smoothing: train.label_smoothing,
            },
            model,
        ))
    }
}

impl Task for RandomPairs {
    type Model = Model;
    type Source = RandomSource;
    type Inputs = (Inputs, Targets);

    fn source(&self) -> &Arc<RandomSource> {
        &self.source
    }

    fn size(&self, PairBatch { src, tgt_out, .. }: &PairBatch) -> BatchSize {
        let targets = tgt_out.num_real();
        let bytes = size_of::<i32>() * (src.ids.len() + 2 * tgt_out.ids.len());
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

    fn upload(
        &self,
        PairBatch {
            src,
            tgt_in,
            tgt_out,
            ..
        }: &PairBatch,
        device: &Device,
    ) -> Self::Inputs {
        let tgt_in = upload_rows(tgt_in, device);
        let inputs = if self.reads == Reads::Pair {
            let src = upload_rows(src, device).into();
            Pair { src, tgt_in }.into()
        } else {
            Text { ids: tgt_in }.into()
        };
        (inputs, upload_targets(&tgt_out.ids, SPECIAL.pad, device))
    }

    fn loss(&self, model: &Model, (inputs, targets): Self::Inputs) -> Loss {
        model
            .predict(inputs)
            .loss(targets, self.label_smoothing, SPECIAL.pad)
            .into()
    }
}

/// Every batch of the first epoch of a task, in its order.
///
/// # Errors
/// The data cannot be read, or gives no batch.
pub fn every_batch<T: Task>(task: &T, plan: &Plan) -> polyglow_train::Result<Vec<MicroBatch<T>>> {
    let source = plan.sharded(task.source());
    let epoch = first_epoch(task)?;
    (0..epoch.len())
        .map(|position| source.batch(0, epoch.batch(position)).map_err(Into::into))
        .collect()
}

/// A batch of each of several lengths, the shortest first, which divide the first epoch of a task
/// into equal parts.
///
/// # Errors
/// The data cannot be read, or gives no batch.
pub(crate) fn buckets<T: Task>(
    task: &T,
    plan: &Plan,
) -> polyglow_train::Result<Vec<MicroBatch<T>>> {
    let source = plan.sharded(task.source());
    let epoch = first_epoch(task)?;
    let mut positions: Vec<usize> = (0..epoch.len()).collect();
    positions.sort_by_key(|&position| source.size(0, epoch.batch(position)).0[1..].to_vec());
    let mut chosen: Vec<usize> = (0..NUM_BUCKETS)
        .map(|bucket| (positions.len() - 1) * bucket / (NUM_BUCKETS - 1))
        .collect();
    chosen.dedup();
    chosen
        .into_iter()
        .map(|index| {
            let items = epoch.batch(positions[index]);
            source.batch(0, items).map_err(Into::into)
        })
        .collect()
}

/// The first epoch, which has at least one batch.
fn first_epoch<T: Task>(task: &T) -> polyglow_train::Result<EpochPlan> {
    let epoch = task.source().plan(0).map_err(Into::into)?;
    if epoch.is_empty() {
        Err(DataError::NoBatch.into())
    } else {
        Ok(epoch)
    }
}
