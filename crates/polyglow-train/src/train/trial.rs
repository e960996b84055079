//! One step of a discarded model, which shows that device, sizes and memory suffice.

use std::time::Instant;

use polyglow_predict::device::guard;
use polyglow_predict::error::{Result, ensure, failed, with_hint};
use serde::Serialize;

use super::memory::peak_memory;
use crate::plan::Plan;
use crate::tasks::{MicroBatch, Task};
use crate::train::{Schedule, StepArgs, Stepper};

/// One training step on the largest batch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TrialReport {
    /// Micro-batches: 2 where `train.accumulate_steps` is more than 1, as gradients take the most
    /// memory then.
    pub micro_batches: usize,
    /// Time of the step; on a GPU it includes the compilation of kernels.
    pub seconds: f64,
    /// Smoothed cross-entropy of the untrained model, in nats per target token.
    pub loss: f64,
    /// Norm of the mean gradient.
    pub grad_norm: f64,
    /// The most memory of this process so far, in bytes, data and tokenizers included; `None` where
    /// the system does not tell. A GPU has memory of its own.
    pub peak_memory: Option<u64>,
}

/// Trains `model`, which is on the plan's training device, for one step on `batch`, repeated where
/// gradients are accumulated.
///
/// # Errors
/// The step fails, which is mostly for lack of memory; its loss or its gradient is not finite.
pub fn try_step<T: Task>(
    task: &T,
    plan: &Plan,
    model: T::Model,
    batch: impl Fn() -> Result<MicroBatch<T>>,
) -> Result<TrialReport> {
    guard(|| run_unguarded(task, plan, model, batch)).unwrap_or_else(|reason| {
        let error = failed!("a training step on the largest batch fails: {reason}");
        Err(with_hint(
            error,
            "if memory ran out: lower `train.max_tokens`, and raise `train.accumulate_steps`",
        ))
    })
}

fn run_unguarded<T: Task>(
    task: &T,
    plan: &Plan,
    model: T::Model,
    batch: impl Fn() -> Result<MicroBatch<T>>,
) -> Result<TrialReport> {
    let train = &plan.config.train;
    let last_step = train.max_steps.unwrap_or(u64::MAX);
    let lr = Schedule::new(train, last_step, plan.d_model).learning_rate(1);
    let mut stepper = Stepper::new(task, plan, model)?;
    let micro_batches = train.accumulate_steps.min(2);
    let window: Vec<MicroBatch<T>> = (0..micro_batches).map(|_| batch()).collect::<Result<_>>()?;
    let started = Instant::now();
    let record = stepper.step(&window, StepArgs::new(1, lr))?;
    let values = record.read();
    stepper.device().sync()?;
    let seconds = started.elapsed().as_secs_f64();
    let loss = values.loss_sum / record.num_tokens as f64;
    let grad_norm = values.grad_norm;
    ensure!(
        loss.is_finite() && grad_norm.is_finite(),
        "the first step is not finite: loss {loss}, gradient norm {grad_norm}"
    );
    Ok(TrialReport {
        micro_batches,
        seconds,
        loss,
        grad_norm,
        peak_memory: peak_memory(),
    })
}
