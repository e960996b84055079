//! Training steps: how long each part takes, and how close it comes to the peak of the machine.

use std::sync::Arc;
use std::time::Instant;

use burn::tensor::{Device, Transaction};
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_model::{Model, ModelShape, parameter};
use polyglow_train::tasks::{BatchOf, Task, Visitor};
use polyglow_train::train::{Optimizer, Phase, StepConfig, StepRecord, observed_step, peak_memory};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result, TrainError};
use serde::Serialize;

use super::material::{buckets, every_batch};
use super::{Machine, Spread, Trace};

/// Steps that are not measured: memory is allocated and kernels are tuned in them.
const WARMUP: u64 = 3;
/// Learning rate of the measured steps; the weights do not matter.
const LR: f64 = 1e-4;

/// Training steps on batches of several lengths.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepReport {
    /// The machine and its peak.
    pub(crate) machine: Machine,
    /// Trained values.
    pub(crate) parameters: usize,
    /// Each length, the shortest first.
    pub(crate) buckets: Vec<BucketReport>,
    /// Steps over the corpus in its order, with the batches prepared in the background; `None` without a corpus.
    pub(crate) stream: Option<StreamReport>,
    /// The most memory of this process, in bytes, data included; `None` if the system does not report it.
    pub(crate) peak_memory: Option<u64>,
}

/// Steps on one batch. The parts are timed in separate steps, which wait for the device after each part.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BucketReport {
    /// The batch, with its padding.
    pub(crate) batch: BatchShape,
    /// Target tokens in it, without padding.
    pub(crate) target_tokens: usize,
    /// A whole step, until its loss is read.
    pub(crate) step: Spread,
    /// Ids to the device.
    pub(crate) upload: Spread,
    /// The forward pass with the loss, and with kernels with the gradients of the projection to the vocabulary.
    pub(crate) forward: Spread,
    /// The rest of the backward pass, with the addition of gradients.
    pub(crate) backward: Spread,
    /// Norm, clipping, Adam, moving average.
    pub(crate) update: Spread,
    /// Loss and norm from the device.
    pub(crate) read: Spread,
    /// Bytes to the device in each step; 12 come back.
    pub(crate) upload_bytes: usize,
    /// Target tokens per second, without padding, at the median step.
    pub(crate) target_tokens_per_second: f64,
    /// Floating-point operations of the matrix products of a step.
    pub(crate) flops: f64,
    /// These per second, at the median step.
    pub(crate) flops_per_second: f64,
    /// As a share of the machine's matrix product peak.
    pub(crate) share_of_peak: f64,
}

/// Steps over a corpus.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamReport {
    /// Steps that were measured.
    pub(crate) steps: u64,
    /// Waiting for the next batch.
    pub(crate) data_wait: Spread,
    /// Target tokens per second, without padding, over all of them.
    pub(crate) target_tokens_per_second: f64,
}

/// Measures `steps` steps on a batch of each length that a task has, and for a corpus as many in its order.
pub(crate) struct StepBench<'a> {
    /// What runs.
    pub(crate) plan: &'a Plan,
    /// The shape of the model.
    pub(crate) shape: &'a ModelShape,
    /// Whether steps over the stream of batches are measured, too.
    pub(crate) with_stream: bool,
    /// Measured steps.
    pub(crate) steps: u64,
    /// The timeline.
    pub(crate) trace: &'a mut Trace,
}

impl Visitor for StepBench<'_> {
    type Output = StepReport;

    /// # Errors
    /// The device fails; a batch cannot be read.
    fn visit<T: Task<Model = Model>>(self, task: T) -> Result<StepReport> {
        let Self { plan, shape, with_stream, steps, trace } = self;
        let machine = Machine::measure(&plan.config.device, &plan.device)?;
        let batches = if with_stream { buckets(&task)? } else { every_batch(&task)? };
        let mut subject = Subject::new(plan, &task, shape)?;
        let buckets = batches.into_iter().map(|batch| subject.bucket(&[batch], &machine, steps, trace));
        let buckets = buckets.collect::<Result<_>>()?;
        let mut stream = None;
        if with_stream {
            let batches = BatchStream::start(Arc::clone(task.source()), Position::default()).map_err(Into::into)?;
            stream = Some(subject.stream(batches, steps)?);
        }
        let parameters = subject.model.as_ref().map_or(0, parameter::count);
        Ok(StepReport { machine, parameters, buckets, stream, peak_memory: peak_memory() })
    }
}

/// The model under measurement.
struct Subject<'a, T: Task<Model = Model>> {
    task: &'a T,
    config: StepConfig,
    shape: &'a ModelShape,
    device: Device,
    model: Option<Model>,
    optimizer: Optimizer,
}

impl<'a, T: Task<Model = Model>> Subject<'a, T> {
    fn new(plan: &Plan, task: &'a T, shape: &'a ModelShape) -> Result<Self> {
        let (seed, device) = (plan.config.seed, plan.training_device()?);
        let model = shape.init(seed, &device);
        let optimizer = Optimizer::new(&plan.config.train, &model);
        Ok(Self {
            task,
            config: StepConfig { seed, step: 0, lr: LR, first: 0 },
            shape,
            device,
            optimizer,
            model: Some(model),
        })
    }

    /// Makes a step on a batch; `observe` is told of each of its parts.
    fn step(&mut self, window: &[BatchOf<T>], observe: &mut dyn FnMut(Phase)) -> Result<StepRecord> {
        self.config.step += 1;
        let model = self.model.take().ok_or_else(|| TrainError::new("a step failed before this one"))?;
        let (model, record) =
            observed_step(self.task, model, &mut self.optimizer, window, &self.device, self.config, observe);
        self.model = Some(model);
        Ok(record)
    }

    fn bucket(
        &mut self,
        window: &[BatchOf<T>],
        machine: &Machine,
        steps: u64,
        trace: &mut Trace,
    ) -> Result<BucketReport> {
        let size = self.task.size(&window[0]);
        let shape = size.shape;
        let mut whole = Vec::new();
        for number in 0..WARMUP + steps {
            let started = Instant::now();
            let record = self.step(window, &mut |_| {})?;
            read(&record)?;
            if number >= WARMUP {
                whole.push(started.elapsed().as_secs_f64());
            }
        }
        let mut parts: [Vec<f64>; 5] = Default::default();
        for _ in 0..steps {
            self.parts(window, &shape, &mut parts, trace)?;
        }
        let [upload, forward, backward, update, read] = parts.map(Spread::of);
        let (step, flops, target_tokens) = (Spread::of(whole), flops(self.shape, &shape), size.targets);
        let flops_per_second = flops / step.median;
        Ok(BucketReport {
            batch: shape,
            target_tokens,
            step,
            upload,
            forward,
            backward,
            update,
            read,
            upload_bytes: size.bytes,
            target_tokens_per_second: target_tokens as f64 / step.median,
            flops,
            flops_per_second,
            share_of_peak: flops_per_second / machine.matmul_peak,
        })
    }

    /// Makes a step, and adds the seconds of each part to `parts`.
    fn parts(
        &mut self,
        window: &[BatchOf<T>],
        shape: &BatchShape,
        parts: &mut [Vec<f64>; 5],
        trace: &mut Trace,
    ) -> Result<()> {
        const NAMES: [&str; 5] = ["upload", "forward", "backward", "update", "read"];
        let device = self.device.clone();
        let mut begin = Instant::now();
        let mut end_part = |part: usize| {
            let end = Instant::now();
            parts[part].push((end - begin).as_secs_f64());
            trace.add(NAMES[part], begin, end, shape);
            begin = end;
        };
        let mut failed = Ok(());
        let record = self.step(window, &mut |phase| {
            let part = match phase {
                Phase::Begin(_) => return,
                Phase::Upload => 0,
                Phase::Forward => 1,
                Phase::Backward => 2,
                Phase::Update => 3,
            };
            let synced = device.sync();
            if failed.is_ok() {
                failed = synced;
            }
            end_part(part);
        })?;
        failed?;
        read(&record)?;
        end_part(4);
        Ok(())
    }

    fn stream(&mut self, mut batches: BatchStream<T::Source>, steps: u64) -> Result<StreamReport> {
        let (mut waits, mut tokens, mut started) = (Vec::new(), 0, Instant::now());
        for number in 0..WARMUP + steps {
            if number == WARMUP {
                (tokens, started) = (0, Instant::now());
            }
            let begin = Instant::now();
            let placed = batches.next().ok_or_else(|| TrainError::new("the stream of batches ended"))?;
            let batch = placed.map_err(Into::into)?.batch;
            waits.push(begin.elapsed().as_secs_f64());
            let record = self.step(&[batch], &mut |_| {})?;
            tokens += record.num_tokens;
            if number + 1 == WARMUP + steps {
                read(&record)?;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let data_wait = Spread::of(waits.split_off(WARMUP as usize));
        Ok(StreamReport { steps, data_wait, target_tokens_per_second: tokens as f64 / seconds })
    }
}

/// Waits for the end of a step.
fn read(record: &StepRecord) -> Result<()> {
    let StepRecord { loss_sum, nll_sum, grad_norm, .. } = record.clone();
    let read = Transaction::default().register(loss_sum).register(nll_sum).register(grad_norm).execute();
    let finite = read.iter().flat_map(|data| data.iter::<f64>()).all(f64::is_finite);
    let message = || format!("the loss or the gradient of step {} is not finite", record.step);
    if finite { Ok(()) } else { Err(TrainError::new(message())) }
}

/// Floating-point operations of all matrix products of a step: the backward pass does twice what the forward pass does.
fn flops(model: &ModelShape, batch: &BatchShape) -> f64 {
    3.0 * model.forward_flops([batch.rows, batch.src_len, batch.tgt_len])
}
