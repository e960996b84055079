//! A step on a GPU, counted instead of run: kernels, bytes, operations, memory.
//!
//! The step is made twice. Once with a few rows and dropped launches, which shows how many kernels
//! each block of operations needs; `CubeCL` measures kernels for products there, so that it must be
//! small. Then at its full size with weights that the device does not have: Burn then plans every
//! block, and runs none.

mod ledger;
mod roofline;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use burn::backend::fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use burn::backend::ir::OperationIr;
use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use burn::cubecl::dry_run::DryRun;
use burn::cubecl::logging::LaunchObservation;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use polyglow_model::{Model, ModelShape, parameter};
use polyglow_train::train::{Optimizer, Phase, StepConfig, observed_step};
use polyglow_train::workload::BatchShape;
use polyglow_train::{Plan, Result};
use serde::Serialize;

use self::ledger::{Block, KnownKernels, Ledger};
use self::roofline::{Estimate, estimates};
use super::RandomPairs;
use super::material::every_batch;

/// The rows of the batch whose kernels are compiled.
const FEW_ROWS: usize = 2;
/// Plans are made in the first step, and used from the next on.
const STEPS: u64 = 3;
/// How many kinds of blocks are listed.
const KINDS: usize = 16;
/// Learning rate of the steps, in which nothing moves.
const LR: f64 = 1e-4;
const PHASES: [&str; 4] = ["upload", "forward", "backward", "update"];

/// A step of one batch on a GPU.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LaunchesReport {
    /// The device that compiled the kernels.
    pub(crate) device: String,
    /// Trained values.
    pub(crate) parameters: usize,
    /// The batch.
    pub(crate) batch: BatchShape,
    /// Upload, forward pass, backward pass, update.
    pub(crate) phases: Vec<Counts>,
    /// Their sum.
    pub(crate) step: Counts,
    /// The most bytes of tensors that live at once: weights, state of the optimizer, activations,
    /// gradients. What the memory manager needs beyond them is not counted.
    pub(crate) peak_memory: u64,
    /// How long a step would take.
    pub(crate) estimates: Vec<Estimate>,
    /// What the most bytes are moved for: operations that run together.
    pub(crate) kinds: Vec<Counts>,
    /// Launches by kernel.
    pub(crate) kernels: BTreeMap<String, usize>,
}

/// What a part of a step does.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Which part.
    pub(crate) name: String,
    /// Kernels that are launched.
    pub(crate) launches: usize,
    /// Blocks of operations that run together.
    pub(crate) blocks: usize,
    /// Bytes that kernels read.
    pub(crate) read: u64,
    /// Bytes that kernels write.
    pub(crate) written: u64,
    /// Floating-point operations of matrix products.
    pub(crate) flops: f64,
}

impl Counts {
    fn of<'a>(name: &str, blocks: impl IntoIterator<Item = &'a Block>) -> Self {
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
pub(crate) fn bench_launches(
    plan: &Plan,
    batch: BatchShape,
    vocab_size: usize,
) -> anyhow::Result<LaunchesReport> {
    let few = BatchShape {
        rows: batch.rows.min(FEW_ROWS),
        ..batch
    };
    let ledger = Arc::new(Ledger::default());
    let launches = LaunchObservation::new(ledger.clone());
    let phases = Counted::new(plan, few, vocab_size)?.step(&ledger, |model| model)?;
    drop(launches);
    let mut known = KnownKernels::new();
    for block in phases.into_iter().flatten() {
        known
            .entry(block.operations)
            .or_default()
            .push_back(block.kernels);
    }

    let mut counted = Counted::new(plan, batch, vocab_size)?;
    let ledger = Arc::new(Ledger::knowing(known));
    let poison = poison(&counted.device)?;
    let phases = counted.step(&ledger, |model| model.map(&mut Poisoned(poison)))?;
    let all: Vec<&Block> = phases.iter().flatten().collect();
    let mut kinds: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
    let mut kernels: BTreeMap<String, usize> = BTreeMap::new();
    for &block in &all {
        kinds.entry(&block.operations).or_default().push(block);
        for &kernel in &block.kernels {
            *kernels
                .entry(type_name_format(kernel, TypeNameFormatLevel::Balanced))
                .or_default() += 1;
        }
    }
    let mut kinds: Vec<Counts> = kinds
        .into_iter()
        .map(|(name, blocks)| Counts::of(name, blocks))
        .collect();
    kinds.sort_by_key(|kind| Reverse(kind.read + kind.written));
    kinds.truncate(KINDS);
    let blocks: Vec<Block> = all.iter().map(|&block| block.clone()).collect();
    Ok(LaunchesReport {
        device: plan.config.device.clone(),
        parameters: counted.parameters,
        batch,
        step: Counts::of("step", all),
        phases: PHASES
            .iter()
            .zip(&phases)
            .map(|(name, blocks)| Counts::of(name, blocks))
            .collect(),
        peak_memory: ledger.peak(),
        estimates: estimates(&blocks),
        kinds,
        kernels,
    })
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

    /// The blocks of a step, by phase, with launches dropped; `prepare` is given the model first.
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
        let train = &plan.config.train;
        let model = shape.init(plan.config.seed, device);
        *parameters = parameter::count(&model);
        let mut optimizer = Optimizer::new(train, &model);
        let mut model = prepare(model);
        let window = every_batch(task, plan)?;
        let phases = Mutex::new(<[Vec<Block>; 4]>::default());
        for step in 1..=STEPS {
            device.sync()?;
            ledger.begin_step();
            *phases.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
            let config = StepConfig {
                seed: plan.config.seed,
                step,
                lr: LR,
                first: 0,
            };
            // A device that cannot be waited for has failed, which the next wait says.
            let observe = |phase, _| {
                let _ = device.sync();
                let phase = match phase {
                    Phase::Upload => 0,
                    Phase::Forward => 1,
                    Phase::Backward => 2,
                    Phase::Update => 3,
                };
                phases.lock().unwrap_or_else(PoisonError::into_inner)[phase].extend(ledger.take());
            };
            (model, _) = observed_step(
                task,
                model,
                &mut optimizer,
                &window,
                device,
                config,
                &observe,
            )?;
        }
        device.sync()?;
        drop(observation);
        Ok(phases.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Replaces weights by such as the device does not have. Whatever is computed from them is planned,
/// and does not run.
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

/// A number whose computation failed.
///
/// # Errors
/// It did not.
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

/// Stops every block before it runs. Burn then holds its results for failed, and what is computed
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
