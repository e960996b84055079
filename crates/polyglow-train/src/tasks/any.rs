//! A task whose types are hidden, so that one loop, compiled once, trains every built-in task.

use std::any::Any;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::batching::EpochPlan;
use polyglow_data::sources::BatchSource;
use polyglow_predict::error::{Result, TrainError};

use super::{BatchOf, BatchSize, Loss, Task, Validation};

/// A batch in host memory, of whatever type its task has.
pub type AnyBatch = Box<dyn Any + Send + Sync>;

/// Any task that trains models of the type `M`.
///
/// Its batches and inputs are boxed, once for each shard of a micro-batch. They come back to the
/// task that made them, so a batch of another type is a bug, and panics.
pub struct AnyTask<M> {
    task: Box<dyn HiddenTask<M>>,
    source: Arc<AnySource>,
}

impl<M: Module + Sync + 'static> AnyTask<M> {
    /// Hides the types of a task.
    pub fn new<T: Task<Model = M>>(task: T) -> Self {
        let source = Arc::new(AnySource(Box::new(Arc::clone(task.source()))));
        Self {
            task: Box::new(task),
            source,
        }
    }
}

impl<M: Module + Sync + 'static> Task for AnyTask<M> {
    type Model = M;
    type Source = AnySource;
    type Inputs = Box<dyn Any>;

    fn source(&self) -> &Arc<AnySource> {
        &self.source
    }

    fn name(&self) -> Option<String> {
        self.task.name()
    }

    fn size(&self, batch: &AnyBatch) -> BatchSize {
        self.task.size(batch)
    }

    fn upload(&self, batch: &AnyBatch, device: &Device) -> Box<dyn Any> {
        self.task.upload(batch, device)
    }

    fn loss(&self, model: &M, inputs: Box<dyn Any>) -> Loss {
        self.task.loss(model, inputs)
    }

    fn uniform_loss(&self) -> Option<f64> {
        self.task.uniform_loss()
    }

    fn validate(&self, model: M) -> Result<Option<Validation>> {
        self.task.validate(model)
    }
}

/// The methods of [`Task`] without its types.
trait HiddenTask<M>: Send + Sync {
    fn name(&self) -> Option<String>;
    fn size(&self, batch: &AnyBatch) -> BatchSize;
    fn upload(&self, batch: &AnyBatch, device: &Device) -> Box<dyn Any>;
    fn loss(&self, model: &M, inputs: Box<dyn Any>) -> Loss;
    fn uniform_loss(&self) -> Option<f64>;
    fn validate(&self, model: M) -> Result<Option<Validation>>;
}

impl<T: Task> HiddenTask<T::Model> for T {
    fn name(&self) -> Option<String> {
        Task::name(self)
    }

    fn size(&self, batch: &AnyBatch) -> BatchSize {
        Task::size(self, batch_of::<T>(batch))
    }

    fn upload(&self, batch: &AnyBatch, device: &Device) -> Box<dyn Any> {
        Box::new(Task::upload(self, batch_of::<T>(batch), device))
    }

    fn loss(&self, model: &T::Model, inputs: Box<dyn Any>) -> Loss {
        let inputs = inputs.downcast::<T::Inputs>();
        Task::loss(self, model, *inputs.expect("this task has made them"))
    }

    fn uniform_loss(&self) -> Option<f64> {
        Task::uniform_loss(self)
    }

    fn validate(&self, model: T::Model) -> Result<Option<Validation>> {
        Task::validate(self, model)
    }
}

fn batch_of<T: Task>(batch: &AnyBatch) -> &BatchOf<T> {
    batch
        .downcast_ref()
        .expect("the source of this task has made it")
}

/// Any source of batches.
pub struct AnySource(Box<dyn HiddenSource>);

impl BatchSource for AnySource {
    type Batch = AnyBatch;
    type Error = TrainError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan> {
        self.0.plan(epoch)
    }

    fn plan_in(&self, epoch: u64, step: u64) -> Result<EpochPlan> {
        self.0.plan_in(epoch, step)
    }

    fn changes(&self) -> Vec<u64> {
        self.0.changes()
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<AnyBatch> {
        self.0.batch(epoch, items)
    }

    fn shards(&self, epoch: u64, items: &[u32], count: usize) -> Result<Vec<AnyBatch>> {
        self.0.shards(epoch, items, count)
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        self.0.size(epoch, items)
    }

    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32> {
        self.0.examples(epoch, items)
    }

    fn origin(&self, example: u32) -> String {
        self.0.origin(example)
    }
}

/// The methods of [`BatchSource`] without its types.
trait HiddenSource: Send + Sync {
    fn plan(&self, epoch: u64) -> Result<EpochPlan>;
    fn plan_in(&self, epoch: u64, step: u64) -> Result<EpochPlan>;
    fn changes(&self) -> Vec<u64>;
    fn batch(&self, epoch: u64, items: &[u32]) -> Result<AnyBatch>;
    fn shards(&self, epoch: u64, items: &[u32], count: usize) -> Result<Vec<AnyBatch>>;
    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize);
    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32>;
    fn origin(&self, example: u32) -> String;
}

impl<S: BatchSource<Error: Into<TrainError>>> HiddenSource for Arc<S> {
    fn plan(&self, epoch: u64) -> Result<EpochPlan> {
        S::plan(self, epoch).map_err(Into::into)
    }

    fn plan_in(&self, epoch: u64, step: u64) -> Result<EpochPlan> {
        S::plan_in(self, epoch, step).map_err(Into::into)
    }

    fn changes(&self) -> Vec<u64> {
        S::changes(self)
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<AnyBatch> {
        let batch = S::batch(self, epoch, items).map_err(Into::into)?;
        Ok(Box::new(batch))
    }

    fn shards(&self, epoch: u64, items: &[u32], count: usize) -> Result<Vec<AnyBatch>> {
        let shards = S::shards(self, epoch, items, count).map_err(Into::into)?;
        let mut boxed: Vec<AnyBatch> = Vec::with_capacity(shards.len());
        for shard in shards {
            boxed.push(Box::new(shard));
        }
        Ok(boxed)
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        S::size(self, epoch, items)
    }

    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32> {
        S::examples(self, epoch, items)
    }

    fn origin(&self, example: u32) -> String {
        S::origin(self, example)
    }
}
