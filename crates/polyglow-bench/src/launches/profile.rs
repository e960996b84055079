//! A step that runs on a GPU, with the device's own time of each kernel.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use burn::backend::fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use burn::backend::ir::OperationIr;
use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use burn::cubecl::future::block_on;
use burn::cubecl::logging::{
    Duration, LaunchObservation, LaunchObserver, ProfileDuration, TimingMethod, TimingRequest,
};
use polyglow::bench::{RandomPairs, every_batch};
use polyglow_train::Plan;
use polyglow_train::train::{Optimizer, Phase, StepArgs, Stepper, StepperParts};
use polyglow_train::workload::BatchShape;
use serde::Serialize;

use super::ledger::{Block, Ledger};

/// Steps before the profile: kernels are compiled and tuned in them.
const WARMUP: u64 = 5;
/// Steps whose time is taken without a profile, which costs time itself.
const PLAIN: u64 = 10;
/// The learning rate of the steps; any will do.
const LR: f64 = 1e-4;

/// A step on a GPU, kernel by kernel.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProfileReport {
    /// The device.
    pub(super) device: String,
    /// The batch.
    pub(super) batch: BatchShape,
    /// Seconds of a step without a profile: the mean of several, one right after the other.
    pub(super) step_seconds: f64,
    /// Seconds until the host had queued such a step. Where the device is the slower of the two, the host
    /// waits for room in its queues, and this is little less than the step.
    pub(super) host_seconds: f64,
    /// Seconds that kernels took on the device, in the step that was profiled.
    pub(super) kernel_seconds: f64,
    /// Upload, forward pass, backward pass, update.
    pub(super) phases: Vec<Part>,
    /// The kinds of blocks, the slowest first: operations that run together.
    pub(super) kinds: Vec<Part>,
    /// The kernels by name, the slowest first.
    pub(super) kernels: Vec<Part>,
    /// Every launch in order: its kernel, and its microseconds.
    pub(super) launches: Vec<(String, f64)>,
}

/// A part of a step.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Part {
    /// The name of the part.
    pub(super) name: String,
    /// Kernels that were launched.
    pub(super) launches: usize,
    /// Seconds of them on the device.
    pub(super) seconds: f64,
    /// Bytes that they read and write, each tensor counted once a block; 0 where that is not known.
    pub(super) bytes: u64,
    /// Floating-point operations of matrix products.
    pub(super) flops: f64,
}

/// A kernel that was launched.
struct Launch {
    kernel: &'static str,
    /// The position of its block among those of the step.
    block: Option<usize>,
    time: Time,
}

/// The device's time of a launch.
enum Time {
    /// It was not measured, or not yet.
    Unknown,
    /// It is on the device, since reading it waits for the kernel.
    Unread(ProfileDuration),
    Read(Duration),
}

/// Writes down launches, with the blocks that they belong to.
#[derive(Default)]
struct Timeline {
    ledger: Ledger,
    launches: Mutex<Vec<Launch>>,
}

impl Timeline {
    fn launches(&self) -> MutexGuard<'_, Vec<Launch>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FusionObserver for Timeline {
    fn registered(&self, operation: &OperationIr) {
        self.ledger.registered(operation);
    }

    fn block_starts(&self, operations: BlockOperations<'_>) {
        self.ledger.block_starts(operations);
    }

    fn block_ran(&self) {
        self.ledger.block_ran();
    }
}

impl LaunchObserver for Timeline {
    fn launched(&self, kernel: &'static str) {
        let block = self.ledger.running();
        self.launches().push(Launch {
            kernel,
            block,
            time: Time::Unknown,
        });
    }

    fn timing(&self) -> TimingRequest {
        TimingRequest::Deferred
    }

    fn profiled(&self, _: &'static str, profile: ProfileDuration) {
        if let Some(launch) = self.launches().last_mut() {
            launch.time = Time::Unread(profile);
        }
    }

    fn timed(&self, _: &'static str, duration: Duration, _: TimingMethod) {
        if let Some(launch) = self.launches().last_mut() {
            launch.time = Time::Read(duration);
        }
    }
}

/// Times a step on random sentences of this shape, for the model and the training of a plan.
///
/// # Errors
/// The device fails, or cannot time its kernels; a size does not fit another.
pub(super) fn profile(
    plan: &Plan,
    batch: BatchShape,
    vocab_size: usize,
) -> anyhow::Result<ProfileReport> {
    let (task, shape) = RandomPairs::new(plan, &[batch], vocab_size)?;
    let device = plan.training_device()?;
    let model = shape.init(plan.config.seed, &device);
    let optimizer = Optimizer::new(&plan.config.train, &model);
    let mut stepper = Stepper::from_parts(StepperParts {
        task: &task,
        model,
        optimizer,
        device: device.clone(),
        seed: plan.config.seed,
    });
    let window = every_batch(&task, plan)?;
    for number in 1..=WARMUP {
        stepper.step(&window, StepArgs::new(number, LR))?;
    }
    device.sync()?;
    let started = Instant::now();
    for number in 1..=PLAIN {
        stepper.step(&window, StepArgs::new(WARMUP + number, LR))?;
    }
    let host_seconds = started.elapsed().as_secs_f64() / PLAIN as f64;
    device.sync()?;
    let step_seconds = started.elapsed().as_secs_f64() / PLAIN as f64;

    let timeline = Arc::new(Timeline::default());
    let fusion = FusionObservation::new(timeline.clone());
    let launches = LaunchObservation::new(timeline.clone());
    #[cfg(feature = "cublaslt")]
    let launches = (
        launches,
        polyglow_kernels::ProductObservation::new(timeline.clone()),
    );
    // The phases in their order, each with the number of launches at its end: a phase comes once for
    // each shard of the batch.
    let ends = Mutex::new(Vec::new());
    let number = WARMUP + PLAIN + 1;
    stepper.observed_step(&window, StepArgs::new(number, LR), &|phase: Phase, _| {
        // The next step that fails says what this would.
        let _ = device.sync();
        let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.push((phase, timeline.launches().len()));
    })?;
    device.sync()?;
    drop((launches, fusion));

    let blocks = timeline.ledger.take();
    let launches: Vec<Launch> = std::mem::take(&mut timeline.launches());
    let launches: Vec<(&'static str, Option<usize>, f64)> = launches
        .into_iter()
        .map(|launch| (launch.kernel, launch.block, seconds(launch.time)))
        .collect();
    ensure!(
        launches.iter().any(|(.., seconds)| *seconds > 0.0),
        "this device does not time its kernels"
    );
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(ProfileReport {
        device: plan.config.device.clone(),
        batch,
        step_seconds,
        host_seconds,
        kernel_seconds: launches.iter().map(|(.., seconds)| seconds).sum(),
        phases: phases(&launches, &ends),
        kinds: kinds(&blocks, &launches),
        kernels: kernels(&launches),
        launches: launches
            .iter()
            .map(|&(kernel, _, seconds)| (short(kernel), seconds * 1e6))
            .collect(),
    })
}

/// Waits for a kernel and returns its seconds; 0 if it was not timed.
fn seconds(time: Time) -> f64 {
    match time {
        Time::Unknown => 0.0,
        Time::Unread(profile) => {
            block_on(profile.resolve()).map_or(0.0, |ticks| ticks.duration().as_secs_f64())
        }
        Time::Read(duration) => duration.as_secs_f64(),
    }
}

/// A kernel's name without the paths of its types.
fn short(kernel: &str) -> String {
    type_name_format(kernel, TypeNameFormatLevel::Balanced)
}

fn phases(launches: &[(&str, Option<usize>, f64)], ends: &[(Phase, usize)]) -> Vec<Part> {
    let mut parts = Phase::ALL.map(|phase| Part {
        name: phase.name().to_owned(),
        ..Part::default()
    });
    let mut begin = 0;
    for &(phase, end) in ends {
        let own = &launches[begin..end];
        begin = end;
        let part = &mut parts[phase.index()];
        part.launches += own.len();
        part.seconds += own.iter().map(|(.., seconds)| seconds).sum::<f64>();
    }
    parts.into()
}

fn kinds(blocks: &[Block], launches: &[(&str, Option<usize>, f64)]) -> Vec<Part> {
    let mut kinds: BTreeMap<&str, Part> = BTreeMap::new();
    for block in blocks {
        let part = kinds.entry(&block.operations).or_default();
        part.bytes += block.read + block.written;
        part.flops += block.flops;
    }
    for &(_, block, seconds) in launches {
        let name = block.map_or("outside of fusion", |block| &*blocks[block].operations);
        let part = kinds.entry(name).or_default();
        part.launches += 1;
        part.seconds += seconds;
    }
    slowest_first(kinds)
}

fn kernels(launches: &[(&str, Option<usize>, f64)]) -> Vec<Part> {
    let mut kernels: BTreeMap<&str, Part> = BTreeMap::new();
    for &(kernel, _, seconds) in launches {
        let part = kernels.entry(kernel).or_default();
        part.launches += 1;
        part.seconds += seconds;
    }
    let mut kernels = slowest_first(kernels);
    for part in &mut kernels {
        part.name = short(&part.name);
    }
    kernels
}

fn slowest_first(parts: BTreeMap<&str, Part>) -> Vec<Part> {
    let named = |(name, part): (&str, Part)| Part {
        name: name.to_owned(),
        ..part
    };
    let mut parts: Vec<Part> = parts.into_iter().map(named).collect();
    parts.retain(|part| part.launches > 0);
    parts.sort_by_key(|part| Reverse((part.seconds * 1e9) as u64));
    parts
}

/// Writes the profile as tables.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn print_profile(out: &mut dyn Write, report: &ProfileReport) -> io::Result<()> {
    let BatchShape {
        rows,
        src_len,
        tgt_len,
    } = report.batch;
    writeln!(
        out,
        "{}, a batch of {rows}x{src_len}x{tgt_len}: a step takes {:.2} ms, of the host {:.2} ms; kernels {:.2} ms",
        report.device,
        report.step_seconds * 1e3,
        report.host_seconds * 1e3,
        report.kernel_seconds * 1e3
    )?;
    let tables = [
        ("PHASE", &report.phases),
        ("OPERATIONS", &report.kinds),
        ("KERNEL", &report.kernels),
    ];
    for (title, parts) in tables {
        writeln!(
            out,
            "\n{:>8} {:>9} {:>6} {:>8} {:>8} {:>8} {:>8}  {title}",
            "LAUNCHES", "MS", "SHARE", "GB", "GB/S", "TFLOP", "TFLOP/S"
        )?;
        for part in parts {
            let gigabytes = part.bytes as f64 / 1e9;
            let teraflops = part.flops / 1e12;
            writeln!(
                out,
                "{:>8} {:>9.3} {:>5.1}% {gigabytes:>8.3} {:>8.0} {teraflops:>8.3} {:>8.0}  {}",
                part.launches,
                part.seconds * 1e3,
                100.0 * part.seconds / report.kernel_seconds,
                gigabytes / part.seconds,
                teraflops / part.seconds,
                part.name
            )?;
        }
    }
    Ok(())
}
