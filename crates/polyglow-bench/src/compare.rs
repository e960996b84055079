//! `polyglow-bench compare`: what a device computes, beside flex, the CPU's backend: every kernel of
//! training, and models of every architecture.

mod kernels;
mod models;

use std::any::Any;
use std::cell::RefCell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use burn::tensor::{Device, Tensor};
use clap::Args;

/// The arguments of `polyglow-bench compare`.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Device to compare, as `polyglow devices` lists it
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Compare only what has this in its name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A comparison: its name, and the function that makes it.
type Check = (&'static str, fn(&Compared) -> Result<()>);

/// The device that is compared.
struct Compared {
    device: Device,
    /// Whether its products of f32 round their factors to tf32, which has 10 bits of a number after the
    /// first.
    rounds_factors: bool,
    /// Whether it is a driver that computes on the CPU, slowly.
    is_software: bool,
    /// Notes of the comparison beside its result.
    notes: RefCell<Vec<String>>,
}

impl Compared {
    /// The largest difference of what comes out of products of f32, relative to the largest value of
    /// its tensor. Of the roundings of tf32, of 2^-11 each, some add up.
    fn products(&self) -> f32 {
        if self.rounds_factors { 2e-3 } else { 1e-5 }
    }

    fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }
}

/// Prints a line for each comparison.
///
/// # Errors
/// The device cannot be opened, or computes something else than flex.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let compared = Compared {
        device: polyglow_predict::device::open(&args.device)?,
        rounds_factors: args.device.starts_with("cuda"),
        is_software: args.device.ends_with(":cpu"),
        notes: RefCell::default(),
    };
    let checks: Vec<&Check> = kernels::CHECKS
        .iter()
        .chain(&models::CHECKS)
        .filter(|(name, _)| args.only.as_ref().is_none_or(|only| name.contains(&**only)))
        .collect();
    if checks.is_empty() {
        let error = anyhow!("`--only`: no comparison has this in its name");
        return Err(polyglow::usage(error));
    }
    let mut out = io::stdout();
    let mut failed = Vec::new();
    for (name, check) in checks {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| check(&compared)))
            .unwrap_or_else(|panic| Err(anyhow!("panic: {}", message(&*panic))));
        let seconds = started.elapsed().as_secs_f64();
        let mut parts = vec![(*name).to_owned()];
        parts.extend(compared.notes.take());
        let line = format!("{seconds:6.1} s  {}", parts.join("; "));
        match result {
            Ok(()) => writeln!(out, "ok      {line}")?,
            Err(error) => {
                // On one line, so that programs can read what is printed.
                let error = format!("{error:#}").replace('\n', " ");
                writeln!(out, "FAILED  {line}: {error}")?;
                failed.push(*name);
            }
        }
    }
    ensure!(failed.is_empty(), "not as on flex: {}", failed.join(", "));
    Ok(())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Compares values with those that are expected.
///
/// # Errors
/// One is no number, or differs by `bound` of the largest that is expected, or of 1 if that is less.
fn are_near(expected: &[f32], actual: &[f32], bound: f32) -> Result<()> {
    ensure!(expected.len() == actual.len(), "the lengths differ");
    let largest = expected
        .iter()
        .fold(1.0f32, |largest, value| largest.max(value.abs()));
    let difference = expected
        .iter()
        .zip(actual)
        .map(|(expected, actual)| (expected - actual).abs())
        .fold(0.0, |most: f32, difference| {
            if difference.is_nan() || most.is_nan() {
                f32::NAN
            } else {
                most.max(difference)
            }
        });
    ensure!(
        difference < bound * largest,
        "differs by {difference} where the largest value is {largest}, and {bound} of it is allowed"
    );
    Ok(())
}
