//! The peak performance of the machine, to compare with.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use polyglow_train::train::peak_memory;
use serde::Serialize;

/// Rows and columns of the matrices whose product shows the peak.
const SIZE: usize = 2048;
const ROUNDS: usize = 6;

/// The device, and its limits as measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Name of the device.
    pub(crate) device: String,
    /// Threads that the CPU runs at once.
    pub(crate) threads: usize,
    /// Floating-point operations per second in a product of two `f32` matrices of 2048 x 2048, the best of several.
    pub(crate) matmul_peak: f64,
    /// The most memory of this process so far, in bytes; `None` if the system does not report it. A GPU has memory of
    /// its own.
    pub(crate) peak_memory: Option<u64>,
}

impl Machine {
    /// Measures a device.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn measure(name: &str, device: &Device) -> polyglow_train::Result<Self> {
        let peak_memory = peak_memory();
        let matrix = || Tensor::<2>::ones([SIZE, SIZE], device);
        let (left, right) = (matrix(), matrix());
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            device.sync()?;
            let started = Instant::now();
            let product = left.clone().matmul(right.clone());
            device.sync()?;
            best = best.min(started.elapsed().as_secs_f64());
            drop(product);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let matmul_peak = 2.0 * (SIZE as f64).powi(3) / best;
        Ok(Self { device: name.to_owned(), threads, matmul_peak, peak_memory })
    }
}
