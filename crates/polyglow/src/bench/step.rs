//! Training steps: how long each part takes, and how close it comes to the peak of the machine.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::sources::Sharded;
use polyglow_model::{Model, ModelShape, Precision, computes_on_host, parameter};
use polyglow_train::tasks::{BatchSize, MicroBatch, Task};
use polyglow_train::train::{OnPhase, Phase, StepArgs, StepRecord, Stepper, peak_memory};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result, TrainError};
use serde::Serialize;

use super::material::{buckets, every_batch};
use super::{Machine, Spread, Trace};

/// Steps that are not measured: memory is allocated and kernels are tuned in them.
const WARMUP: u64 = 3;
/// Steps of a repetition on a GPU, after the last of which something is read.
const BURST: u32 = 5;
/// Learning rate of the measured steps; the weights do not matter.
const LR: f64 = 1e-4;

/// Training steps on batches of several lengths.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepReport {
    /// The machine and its peak.
    pub(crate) machine: Machine,
    /// Trained values.
    pub(crate) parameters: usize,
    /// The format that factors of matrix products are rounded to.
    pub(crate) precision: Precision,
    /// Each length, the shortest first.
    pub(crate) buckets: Vec<BucketReport>,
    /// Steps over the corpus in its order, with the batches prepared in the background; `None`
    /// without a corpus.
    pub(crate) stream: Option<StreamReport>,
    /// The most memory of this process, in bytes, data included; `None` if the system does not
    /// report it.
    pub(crate) peak_memory: Option<u64>,
}

/// The mean times of steps on batches of several lengths, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct StepTimes {
    /// Trained values.
    pub parameters: usize,
    /// A whole step.
    pub step: f64,
    /// The update of the weights, which is a part of it.
    pub update: f64,
}

impl StepReport {
    /// The mean of the medians of all lengths.
    pub(crate) fn times(&self) -> StepTimes {
        let count = self.buckets.len() as f64;
        let steps: f64 = self.buckets.iter().map(|bucket| bucket.step.median).sum();
        let updates: f64 = self.buckets.iter().map(|bucket| bucket.update.median).sum();
        StepTimes {
            parameters: self.parameters,
            step: steps / count,
            update: updates / count,
        }
    }
}

/// Steps on one batch. The parts are timed in separate steps, which wait for the device after each
/// part.
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
    /// The forward pass with the loss, and with kernels with the gradients of the projection to the
    /// vocabulary.
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

/// Measures `steps` steps on a batch of each length that a task has, and for a corpus as many in
/// its order.
pub(crate) struct StepBench<'a> {
    /// The plan of the training.
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

impl StepBench<'_> {
    /// Measures steps of a task.
    ///
    /// # Errors
    /// The device fails; a batch cannot be read.
    pub(crate) fn run<T: Task<Model = Model>>(self, task: &T) -> Result<StepReport> {
        let Self {
            plan,
            shape,
            with_stream,
            steps,
            trace,
        } = self;
        let machine = Machine::measure(&plan.config.device, &plan.device)?;
        let batches = if with_stream {
            buckets(task, plan)?
        } else {
            every_batch(task, plan)?
        };
        let mut subject = Subject::new(plan, task, shape)?;
        let buckets = batches
            .into_iter()
            .map(|batch| subject.bucket(&[batch], &machine, steps, trace));
        let buckets = buckets.collect::<Result<_>>()?;
        let mut stream = None;
        if with_stream {
            let batches = BatchStream::start(plan.sharded(task.source()), Position::default())
                .map_err(Into::into)?;
            stream = Some(subject.stream(batches, steps)?);
        }
        let parameters = parameter::count(subject.stepper.model()?);
        let precision = plan.config.train.precision;
        Ok(StepReport {
            machine: machine.ended(),
            parameters,
            precision,
            buckets,
            stream,
            peak_memory: peak_memory(),
        })
    }
}

/// The model under measurement.
struct Subject<'a, T: Task<Model = Model>> {
    task: &'a T,
    shape: &'a ModelShape,
    stepper: Stepper<'a, T>,
    /// Steps that were made.
    steps: u64,
}

impl<'a, T: Task<Model = Model>> Subject<'a, T> {
    fn new(plan: &Plan, task: &'a T, shape: &'a ModelShape) -> Result<Self> {
        let model = shape.init(plan.config.seed, &plan.training_device()?);
        Ok(Self {
            task,
            shape,
            stepper: Stepper::new(task, plan, model)?,
            steps: 0,
        })
    }

    /// Makes a step on a batch; `observe` is called after each of its phases.
    fn step(&mut self, window: &[MicroBatch<T>], observe: &OnPhase<'_>) -> Result<StepRecord> {
        self.steps += 1;
        let config = StepArgs::new(self.steps, LR);
        self.stepper.observed_step(window, config, observe)
    }

    fn bucket(
        &mut self,
        window: &[MicroBatch<T>],
        machine: &Machine,
        steps: u64,
        trace: &mut Trace,
    ) -> Result<BucketReport> {
        let sizes: Vec<BatchSize> = window[0]
            .iter()
            .map(|shard| self.task.size(shard))
            .collect();
        let size = BatchSize::of_all(sizes.iter().copied());
        let shape = size.shape;
        let mut whole = Vec::new();
        // A GPU that is read from stands still until the host has more work for it. A training
        // reads from it now and then.
        let burst = if computes_on_host(self.stepper.device()) {
            1
        } else {
            BURST
        };
        for number in 0..WARMUP + steps {
            let started = Instant::now();
            for _ in 1..burst {
                self.step(window, &|_, _| {})?;
            }
            read(&self.step(window, &|_, _| {})?)?;
            if number >= WARMUP {
                whole.push(started.elapsed().as_secs_f64() / f64::from(burst));
            }
        }
        let mut parts: [Vec<f64>; 5] = Default::default();
        for _ in 0..steps {
            self.parts(window, &shape, &mut parts, trace)?;
        }
        let [upload, forward, backward, update, read] = parts.map(Spread::of);
        let flops: f64 = sizes
            .iter()
            .map(|size| flops(self.shape, &size.shape))
            .sum();
        let step = Spread::of(whole);
        let target_tokens = size.targets;
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

    /// Makes a step, and adds the seconds of each part to `parts`. Where shards are worked on side
    /// by side, each part has the share of their time that it has of the work.
    fn parts(
        &mut self,
        window: &[MicroBatch<T>],
        shape: &BatchShape,
        parts: &mut [Vec<f64>; 5],
        trace: &mut Trace,
    ) -> Result<()> {
        let device = self.stepper.device().clone();
        let ended = Mutex::new(Vec::new());
        let record = self.step(window, &|phase, begin| {
            let synced = device.sync();
            let part = (phase, begin, Instant::now(), synced);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.push(part);
        })?;
        let mut seconds = [0.0; 5];
        let mut passes = None;
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (phase, begin, end, synced) in ended {
            synced?;
            trace.add(phase.name(), begin, end, shape);
            seconds[phase.index()] += (end - begin).as_secs_f64();
            if phase != Phase::Update {
                let (first, last) = passes.unwrap_or((begin, end));
                passes = Some((begin.min(first), end.max(last)));
            }
        }
        let begin = Instant::now();
        read(&record)?;
        trace.add("read", begin, Instant::now(), shape);
        seconds[4] = begin.elapsed().as_secs_f64();
        let wall = passes.map_or(0.0, |(begin, end)| (end - begin).as_secs_f64());
        let side_by_side = wall / seconds[..3].iter().sum::<f64>();
        seconds[..3]
            .iter_mut()
            .for_each(|seconds| *seconds *= side_by_side);
        for (part, seconds) in parts.iter_mut().zip(seconds) {
            part.push(seconds);
        }
        Ok(())
    }

    fn stream(
        &mut self,
        mut batches: BatchStream<Sharded<T::Source>>,
        steps: u64,
    ) -> Result<StreamReport> {
        let mut waits = Vec::new();
        let mut tokens = 0;
        let mut started = Instant::now();
        for number in 0..WARMUP + steps {
            if number == WARMUP {
                tokens = 0;
                started = Instant::now();
            }
            let begin = Instant::now();
            let placed = batches
                .next()
                .ok_or_else(|| TrainError::new("the stream of batches ended"))?;
            let batch = placed.map_err(Into::into)?.batch;
            waits.push(begin.elapsed().as_secs_f64());
            let record = self.step(&[batch], &|_, _| {})?;
            tokens += record.num_tokens;
            if number + 1 == WARMUP + steps {
                read(&record)?;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let data_wait = Spread::of(waits.split_off(WARMUP as usize));
        Ok(StreamReport {
            steps,
            data_wait,
            target_tokens_per_second: tokens as f64 / seconds,
        })
    }
}

/// Waits for the end of a step.
///
/// # Errors
/// Its loss or its gradient is not finite.
fn read(record: &StepRecord) -> Result<()> {
    if record.read().is_finite() {
        return Ok(());
    }
    let step = record.step;
    Err(TrainError::new(format!(
        "the loss or the gradient of step {step} is not finite"
    )))
}

/// A step's operations for each of its forward pass: the backward pass does twice what the forward
/// pass does.
pub(super) const STEP: f64 = 3.0;

/// Floating-point operations of all matrix products of a step.
pub(super) fn flops(model: &ModelShape, batch: &BatchShape) -> f64 {
    STEP * model.forward_flops([batch.rows, batch.src_len, batch.tgt_len])
}
