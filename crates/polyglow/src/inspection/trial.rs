//! Trial steps with a throw-away model: one on the largest batch, which shows that memory suffices,
//! and some over the mix of batches that an epoch has, which show how long training takes.

mod validation;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use polyglow_data::batching::EpochPlan;
use polyglow_data::sources::BatchSource;
use polyglow_model::{Model, ModelShape, parameter};
use polyglow_train::tasks::{AnyTask, MicroBatch, Task};
use polyglow_train::train::{
    Bytes, DiskEstimate, MemoryEstimate, StepArgs, Stepper, TrialReport, activations, last_step,
    try_step,
};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result, TrainError};

use super::BatchesReport;
use super::pace::{TimedStep, Workload};
use crate::allocator;
pub(super) use validation::time_validation;

/// Quantiles of the batch sizes of an epoch at which steps are timed: the middles of equal parts,
/// in an order in which the first few stand for all.
const QUANTILES: [f64; 8] = [
    0.5625, 0.1875, 0.8125, 0.3125, 0.6875, 0.0625, 0.9375, 0.4375,
];
/// Steps that are timed however long they take.
const FEWEST: usize = 3;
/// Steps that are timed at most.
const MOST: usize = 24;
/// Seconds after which no further step is timed, so that a check stays short.
const ENOUGH: f64 = 6.0;
/// Micro-batches of a step that is timed, at most; the update is the same for more.
const MOST_MICRO_BATCHES: usize = 4;
/// Learning rate of the steps; the weights do not matter.
const LR: f64 = 1e-4;

/// The results of trial steps.
pub(super) struct Trials {
    pub(super) batches: BatchesReport,
    pub(super) parameters: usize,
    pub(super) memory: MemoryEstimate,
    pub(super) disk: DiskEstimate,
    pub(super) step: TrialReport,
    pub(super) timed: Vec<TimedStep>,
    pub(super) work: Workload,
}

/// Makes the trial steps of a task.
pub(super) struct Trial<'a> {
    pub(super) plan: &'a Plan,
    pub(super) shape: &'a ModelShape,
    /// Bytes of the id cache on the disk.
    pub(super) cache: u64,
    /// The directory that the run will be in.
    pub(super) directory: &'a Path,
}

impl Trial<'_> {
    /// Makes the steps on batches of a task.
    ///
    /// # Errors
    /// A batch cannot be made; the device fails.
    pub(super) fn run(self, task: &AnyTask<Model>) -> Result<Trials> {
        let Self {
            plan,
            shape,
            cache,
            directory,
        } = self;
        let epoch = task.source().plan(0)?;
        let (batches, sizes) = plan_batches(plan, shape, &**task.source(), &epoch)?;
        let device = plan.training_device()?;
        let model = shape.init(plan.config.seed, &device);
        let train = &plan.config.train;
        let parameters = parameter::count(&model);
        let memory = MemoryEstimate::new(plan, shape, &model, batches.largest);
        let disk = DiskEstimate::new(
            train,
            &model,
            (batches.steps, plan.config.data.has_valid()),
            cache,
            directory,
        );
        let BatchShape {
            rows,
            src_len,
            tgt_len,
        } = batches.largest;
        tracing::info!(
            "trying a step on the largest batch: {rows} rows of {src_len} + {tgt_len} positions, about {}",
            Bytes(memory.total)
        );
        // Noted for the message if memory runs out here, as it is for the steps of a training.
        allocator::note_batch(Some(batches.largest));
        let sharded = plan.sharded(task.source());
        let step = try_step(task, plan, model, || {
            sharded.batch(0, epoch.batch(sizes.largest))
        });
        allocator::note_batch(None);
        let step = step?;
        // Another model, so that memory never holds two.
        let model = shape.init(plan.config.seed, &device);
        let timed = time_steps(task, plan, model, &epoch, &sizes)?;
        let step_flops = sizes.total_flops() / batches.steps_per_epoch as f64;
        let work = Workload {
            step_flops,
            steps: batches.steps,
            validate_every: train.validate_every,
        };
        Ok(Trials {
            batches,
            parameters,
            memory,
            disk,
            step,
            timed,
            work,
        })
    }
}

/// The batches of an epoch by their size.
struct Sizes {
    /// The position of the batch that takes the most memory.
    largest: usize,
    /// Operations of a forward pass, and the position of the batch, the smallest first.
    flops: Vec<(f64, usize)>,
}

impl Sizes {
    fn total_flops(&self) -> f64 {
        self.flops.iter().map(|(flops, _)| flops).sum()
    }

    /// The batch of the timed step of this index: its operations, and its position in the epoch.
    fn at(&self, index: usize) -> (f64, usize) {
        let quantile = QUANTILES[index % QUANTILES.len()];
        // Later rounds take the batches next to those of the first, so that none is timed twice.
        let rank = (quantile * self.flops.len() as f64) as usize + index / QUANTILES.len();
        self.flops[rank % self.flops.len()]
    }
}

/// The batches of the first epoch.
fn plan_batches<S: BatchSource>(
    plan: &Plan,
    model: &ModelShape,
    source: &S,
    epoch: &EpochPlan,
) -> Result<(BatchesReport, Sizes)> {
    let mut positions = 0;
    let mut real = 0;
    let mut largest: Option<(u64, usize, BatchShape)> = None;
    let mut shapes = BTreeSet::new();
    let mut flops = Vec::with_capacity(epoch.len());
    for position in 0..epoch.len() {
        let (size, real_positions) = source.size(0, epoch.batch(position));
        let shape = BatchShape::from(size);
        shapes.insert(shape);
        flops.push((model.forward_flops(size), position));
        positions += shape.positions();
        real += real_positions;
        let bytes = activations(plan, model, shape);
        if largest.is_none_or(|(most, ..)| bytes > most) {
            largest = Some((bytes, position, shape));
        }
    }
    flops.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, position, largest) =
        largest.ok_or_else(|| TrainError::new("the training text gives no batch"))?;
    let train = &plan.config.train;
    let report = BatchesReport {
        per_epoch: epoch.len(),
        shapes: shapes.len(),
        steps_per_epoch: epoch.len().div_ceil(train.accumulate_steps) as u64,
        steps: last_step(train, epoch.len()),
        padding: 1.0 - real as f64 / positions as f64,
        largest,
    };
    Ok((
        report,
        Sizes {
            largest: position,
            flops,
        },
    ))
}

/// Times steps on batches of the sizes that an epoch has. Each batch of a GPU comes once before it
/// is timed, because kernels are compiled for its shape; on a CPU the step on the largest batch was
/// enough of a warm-up.
fn time_steps<T: Task<Model = Model>>(
    task: &T,
    plan: &Plan,
    model: Model,
    epoch: &EpochPlan,
    sizes: &Sizes,
) -> Result<Vec<TimedStep>> {
    let mut stepper = Stepper::new(task, plan, model)?;
    let mut number = 0;
    let batches = plan.sharded(task.source());
    let micro_batches = plan.config.train.accumulate_steps.min(MOST_MICRO_BATCHES);
    let mut timed = Vec::new();
    let started = Instant::now();
    for index in 0..MOST {
        if timed.len() >= FEWEST && started.elapsed().as_secs_f64() > ENOUGH {
            break;
        }
        let (flops, position) = sizes.at(index);
        let items = epoch.batch(position);
        let mut window: Vec<MicroBatch<T>> = Vec::new();
        for _ in 0..micro_batches {
            window.push(batches.batch(0, items).map_err(Into::into)?);
        }
        if !plan.on_host {
            number += 1;
            timed_step(&mut stepper, number, &window)?;
        }
        number += 1;
        let (tokens, seconds) = timed_step(&mut stepper, number, &window)?;
        timed.push(TimedStep {
            flops: micro_batches as f64 * flops,
            tokens,
            seconds,
        });
    }
    Ok(timed)
}

/// Makes a step and waits for its end; returns its target tokens, and the seconds that it took.
fn timed_step<T: Task>(
    stepper: &mut Stepper<'_, T>,
    number: u64,
    window: &[MicroBatch<T>],
) -> Result<(usize, f64)> {
    let started = Instant::now();
    let record = stepper.step(window, StepArgs::new(number, LR))?;
    record.read();
    stepper.device().sync()?;
    Ok((record.num_tokens, started.elapsed().as_secs_f64()))
}
