//! Counts the work of a step, in two passes. The first has a few rows, and its launches are dropped: it
//! shows how many kernels each block of operations needs. It must be small, since `CubeCL` measures
//! kernels for products in it. The second has the full size, and weights whose computation failed: Burn
//! then plans every block, and runs none.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use burn::backend::fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use burn::backend::ir::OperationIr;
use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use burn::cubecl::dry_run::DryRun;
use burn::cubecl::logging::LaunchObservation;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use polyglow::bench::{RandomPairs, every_batch};
use polyglow_model::{Model, ModelShape, parameter};
use polyglow_train::train::{Optimizer, Phase, StepArgs, Stepper, StepperParts};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result};
use serde::Serialize;

use super::ledger::{Block, KnownKernels, Ledger};
use super::roofline::{Estimate, estimates};

/// The number of rows in the first pass, whose kernels are compiled.
const FEW_ROWS: usize = 2;
/// The number of steps of a pass. Burn plans in the first step, and uses the plans from the second on;
/// the last is counted.
const STEPS: u64 = 3;
/// The number of steps whose time on the host is taken.
const TIMED: u64 = 10;
/// The number of kinds of blocks that are listed.
const KINDS: usize = 16;
/// The learning rate of the steps; any will do, since no weight changes.
const LR: f64 = 1e-4;

/// A step of one batch on a GPU.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LaunchesReport {
    /// The device that compiled the kernels.
    pub(super) device: String,
    /// Trained values.
    pub(super) parameters: usize,
    /// The batch.
    pub(super) batch: BatchShape,
    /// Upload, forward pass, backward pass, update.
    pub(super) phases: Vec<Counts>,
    /// Their sum.
    pub(super) step: Counts,
    /// The most bytes of tensors that live at once: weights, state of the optimizer, activations,
    /// gradients. What the memory manager needs beyond them is not counted.
    pub(super) peak_memory: u64,
    /// Seconds that the host takes to queue a step, without the driver's part: the mean of several.
    pub(super) host_seconds: f64,
    /// Estimates of the time of a step on known devices.
    pub(super) estimates: Vec<Estimate>,
    /// The kinds of blocks that move the most bytes: operations that run together.
    pub(super) kinds: Vec<Counts>,
    /// Launches by kernel.
    pub(super) kernels: BTreeMap<String, usize>,
}

/// The work of a part of a step.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// The name of the part.
    pub(super) name: String,
    /// Kernels that are launched.
    pub(super) launches: usize,
    /// Blocks of operations that run together.
    pub(super) blocks: usize,
    /// Bytes that kernels read.
    pub(super) read: u64,
    /// Bytes that kernels write.
    pub(super) written: u64,
    /// Floating-point operations of matrix products.
    pub(super) flops: f64,
}

impl Counts {
    /// Adds up the blocks of a part.
    fn new<'a>(name: &str, blocks: impl IntoIterator<Item = &'a Block>) -> Self {
        let mut counts = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        for block in blocks {
            counts.blocks += 1;
            counts.launches += block.kernels.len();
            counts.read += block.read;
            counts.written += block.written;
            counts.flops += block.flops;
        }
        counts
    }
}

/// Counts a step on random sentences of this shape, for the model and the training of a plan.
///
/// # Errors
/// The device is no GPU, or fails; a size does not fit another.
pub(super) fn count_launches(
    plan: &Plan,
    batch: BatchShape,
    vocab_size: usize,
) -> anyhow::Result<LaunchesReport> {
    let few = BatchShape {
        rows: batch.rows.min(FEW_ROWS),
        ..batch
    };
    let mut small = Counted::new(plan, few, vocab_size)?;
    let known = known_kernels(&mut small)?;
    let host_seconds = small.host_seconds()?;
    let ledger = Arc::new(Ledger::knowing(known));
    let mut counted = Counted::new(plan, batch, vocab_size)?;
    let poison = poison(&counted.device)?;
    let phases = counted.step(&ledger, |model| model.map(&mut Poisoned(poison)))?;
    let blocks: Vec<Block> = phases.iter().flatten().cloned().collect();
    Ok(LaunchesReport {
        device: plan.config.device.clone(),
        parameters: counted.parameters,
        batch,
        phases: Phase::ALL
            .iter()
            .zip(&phases)
            .map(|(phase, blocks)| Counts::new(phase.name(), blocks))
            .collect(),
        step: Counts::new("step", &blocks),
        peak_memory: ledger.peak(),
        host_seconds,
        estimates: estimates(&blocks),
        kinds: kinds(&blocks),
        kernels: kernels(&blocks),
    })
}

/// Runs the first pass: steps with dropped launches. Returns the kernels of their blocks.
fn known_kernels(counted: &mut Counted<'_>) -> Result<KnownKernels> {
    let ledger = Arc::new(Ledger::default());
    let launches = LaunchObservation::new(ledger.clone());
    let phases = counted.step(&ledger, |model| model)?;
    drop(launches);
    let mut known = KnownKernels::new();
    for block in phases.into_iter().flatten() {
        known
            .entry(block.operations)
            .or_default()
            .push_back(block.kernels);
    }
    Ok(known)
}

/// Returns the kinds of blocks that move the most bytes.
fn kinds(blocks: &[Block]) -> Vec<Counts> {
    let mut kinds: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
    for block in blocks {
        kinds.entry(&block.operations).or_default().push(block);
    }
    let mut kinds: Vec<Counts> = kinds
        .into_iter()
        .map(|(name, blocks)| Counts::new(name, blocks))
        .collect();
    kinds.sort_by_key(|kind| Reverse(kind.read + kind.written));
    kinds.truncate(KINDS);
    kinds
}

/// Counts the launches by the name of the kernel.
fn kernels(blocks: &[Block]) -> BTreeMap<String, usize> {
    let mut kernels = BTreeMap::new();
    for &kernel in blocks.iter().flat_map(|block| &block.kernels) {
        let name = type_name_format(kernel, TypeNameFormatLevel::Balanced);
        *kernels.entry(name).or_default() += 1;
    }
    kernels
}

/// A training of one batch.
struct Counted<'a> {
    plan: &'a Plan,
    task: RandomPairs,
    shape: ModelShape,
    device: Device,
    parameters: usize,
}

impl<'a> Counted<'a> {
    fn new(plan: &'a Plan, batch: BatchShape, vocab_size: usize) -> anyhow::Result<Self> {
        let (task, shape) = RandomPairs::new(plan, &[batch], vocab_size)?;
        Ok(Self {
            plan,
            task,
            parameters: 0,
            shape,
            device: plan.training_device()?,
        })
    }

    /// Returns the seconds of a step whose launches are dropped.
    fn host_seconds(&self) -> Result<f64> {
        let Self { plan, task, .. } = self;
        let _dry = DryRun::new();
        let model = self.shape.init(plan.config.seed, &self.device);
        let mut stepper = Stepper::from_parts(StepperParts {
            task,
            optimizer: Optimizer::new(&plan.config.train, &model),
            model,
            device: self.device.clone(),
            seed: plan.config.seed,
        });
        let window = every_batch(task, plan)?;
        let mut started = Instant::now();
        for step in 1..=STEPS + TIMED {
            if step == STEPS + 1 {
                self.device.sync()?;
                started = Instant::now();
            }
            stepper.step(&window, StepArgs::new(step, LR))?;
        }
        self.device.sync()?;
        Ok(started.elapsed().as_secs_f64() / TIMED as f64)
    }

    /// Returns the blocks of the last of a few steps, by phase, with launches dropped. `prepare` is called
    /// with the model before the first step.
    fn step(
        &mut self,
        ledger: &Arc<Ledger>,
        prepare: impl FnOnce(Model) -> Model,
    ) -> Result<[Vec<Block>; 4]> {
        let Self {
            plan,
            task,
            shape,
            device,
            parameters,
        } = self;
        let _dry = DryRun::new();
        let observation = FusionObservation::new(ledger.clone());
        let model = shape.init(plan.config.seed, device);
        *parameters = parameter::count(&model);
        let optimizer = Optimizer::new(&plan.config.train, &model);
        let mut stepper = Stepper::from_parts(StepperParts {
            task,
            model: prepare(model),
            optimizer,
            device: device.clone(),
            seed: plan.config.seed,
        });
        let window = every_batch(task, plan)?;
        let phases = Mutex::new(<[Vec<Block>; 4]>::default());
        for step in 1..=STEPS {
            device.sync()?;
            ledger.begin_step();
            *phases.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
            stepper.observed_step(&window, StepArgs::new(step, LR), &|phase: Phase, _| {
                // Blocks run when the device is waited for. An error of the device comes back from the
                // next wait.
                let _ = device.sync();
                let mut phases = phases.lock().unwrap_or_else(PoisonError::into_inner);
                phases[phase.index()].extend(ledger.take());
            })?;
        }
        device.sync()?;
        drop(observation);
        Ok(phases.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Replaces weights by tensors whose computation failed. All that is computed from them is planned, and
/// does not run.
struct Poisoned(Tensor<1>);

impl ModuleMapper for Poisoned {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| {
            let poisoned = Tensor::from_inner(value.clone().inner() * self.0.clone().unsqueeze());
            if value.is_require_grad() {
                poisoned.require_grad()
            } else {
                poisoned
            }
        })
    }
}

/// Makes a tensor whose computation failed.
///
/// # Errors
/// The computation did not fail: the device is no GPU.
fn poison(device: &Device) -> anyhow::Result<Tensor<1>> {
    let device = device.clone().inner();
    device.sync()?;
    let observation = FusionObservation::new(Arc::new(Refusal));
    let poison = Tensor::ones([1], &device);
    let _ = device.sync();
    drop(observation);
    ensure!(
        poison.clone().try_into_data().is_err(),
        "this device is no GPU, so there are no launches to count; take one of `polyglow devices`, or `wgpu:cpu`, which needs no GPU"
    );
    Ok(poison)
}

/// Stops every block before it runs. Burn then treats its results as failed, and all that is computed
/// from them.
struct Refusal;

impl FusionObserver for Refusal {
    fn registered(&self, _: &OperationIr) {}

    fn block_starts(&self, _: BlockOperations<'_>) {
        // Not `panic!`, which would be reported.
        resume_unwind(Box::new("not to be computed"));
    }

    fn block_ran(&self) {}
}
