//! The peak performance of the machine, to compare with.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use polyglow_predict::device::{instructions, threads};
use serde::Serialize;

use crate::cpu_time::CpuTime;

/// Rows and columns of the matrices whose product shows the peak.
const SIZE: usize = 2048;
/// The same with a software driver in place of a GPU.
const SMALL: usize = 128;
/// Products that are timed; the fastest counts, because others are slowed down by tuning and by
/// other programs.
const ROUNDS: usize = 6;

/// The device, and its limits as measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Name of the device.
    pub(crate) device: String,
    /// The widest instructions that kernels use, on the CPU; `None` on a device without them.
    pub(crate) instructions: Option<&'static str>,
    /// Threads that a step on the CPU computes with.
    pub(crate) threads: usize,
    /// Floating-point operations per second in a product of two `f32` matrices of 2048 x 2048, the
    /// best of several.
    pub(crate) matmul_peak: f64,
    /// The share of the CPU's time that other programs of this machine had until
    /// [`Machine::ended`]; `None` if the system does not report it.
    pub(crate) others: Option<f64>,
    /// The share that the host of a virtual machine gave to other machines.
    pub(crate) stolen: Option<f64>,
    #[serde(skip)]
    began: Option<CpuTime>,
}

impl Machine {
    /// Measures a device.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn measure(name: &str, device: &Device) -> polyglow_train::Result<Self> {
        let began = CpuTime::now();
        // A software driver would take minutes for the large product, and its peak says nothing.
        let size = if name.ends_with(":cpu") { SMALL } else { SIZE };
        let left = Tensor::<2>::ones([size, size], device);
        let right = Tensor::<2>::ones([size, size], device);
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            device.sync()?;
            let started = Instant::now();
            let product = left.clone().matmul(right.clone());
            device.sync()?;
            best = best.min(started.elapsed().as_secs_f64());
            drop(product);
        }
        Ok(Self {
            device: name.to_owned(),
            instructions: instructions(device),
            threads: threads(),
            matmul_peak: 2.0 * (size as f64).powi(3) / best,
            others: None,
            stolen: None,
            began,
        })
    }

    /// Returns the machine with the shares of CPU time that others had during the measurement.
    pub(crate) fn ended(self) -> Self {
        let passed = CpuTime::passed_since(self.began);
        Self {
            others: passed.map(CpuTime::others),
            stolen: passed.map(CpuTime::stolen),
            ..self
        }
    }
}
