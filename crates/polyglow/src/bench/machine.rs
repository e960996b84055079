//! The peak performance of the machine, to compare with.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use polyglow_kernels::instruction_set;
use serde::Serialize;

/// Rows and columns of the matrices whose product shows the peak.
const SIZE: usize = 2048;
const SMALL: usize = 128;
const ROUNDS: usize = 6;

/// The device, and its limits as measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Name of the device.
    pub(crate) device: String,
    /// The widest instructions that kernels use on the CPU; `None` in a build without kernels.
    pub(crate) instructions: Option<&'static str>,
    /// Threads that the CPU runs at once.
    pub(crate) threads: usize,
    /// Floating-point operations per second in a product of two `f32` matrices of 2048 x 2048, the best of several.
    pub(crate) matmul_peak: f64,
    /// Which part of the CPU's time the host of a virtual machine gave to others, until [`Machine::ended`]; `None` if the system does
    /// not report it.
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
        // A driver without a GPU would compute for minutes, and has no peak that anybody asks for.
        let size = if name.ends_with(":cpu") { SMALL } else { SIZE };
        let matrix = || Tensor::<2>::ones([size, size], device);
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
        let matmul_peak = 2.0 * (size as f64).powi(3) / best;
        let instructions = instruction_set();
        Ok(Self { device: name.to_owned(), instructions, threads, matmul_peak, stolen: None, began })
    }

    /// The same machine when all is measured.
    pub(crate) fn ended(self) -> Self {
        let stolen = self.began.zip(CpuTime::now()).map(|(began, now)| now.stolen_since(began));
        Self { stolen, ..self }
    }
}

/// What this machine's CPU did since it started, in ticks of all its threads.
#[derive(Clone, Copy, Debug)]
struct CpuTime {
    total: u64,
    stolen: u64,
}

impl CpuTime {
    /// `None` if the system does not report it.
    fn now() -> Option<Self> {
        Self::read(&fs_err::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, and two that are part of the first two.
    fn read(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let ticks: Vec<u64> = ticks.map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
        Some(Self { total: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// As a share of all time.
    fn stolen_since(self, began: Self) -> f64 {
        let passed = self.total.saturating_sub(began.total).max(1);
        self.stolen.saturating_sub(began.stolen) as f64 / passed as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let at = |line: &str| CpuTime::read(&format!("{line}\ncpu0 1 2 3\n"));
        let began = at("cpu  100 10 40 800 20 0 5 25 7 0").expect("it is whole");
        let ended = at("cpu  150 10 50 820 20 0 5 45 9 0").expect("it is whole");
        assert!((ended.stolen_since(began) - 0.2).abs() < 1e-12);
        assert!(began.stolen_since(began).abs() < 1e-12);
        assert!(at("cpu  1 2 3").is_none() && at("intr 1 2 3 4 5 6 7 8").is_none());
    }
}
