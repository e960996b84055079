//! The peak performance of the machine, to compare with.

use std::time::Instant;

use burn::tensor::{Device, Tensor};
use polyglow_predict::device::{instructions, threads};
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
    /// The widest instructions that kernels use, on the CPU; `None` on a device without them.
    pub(crate) instructions: Option<&'static str>,
    /// Threads that a step on the CPU computes with.
    pub(crate) threads: usize,
    /// Floating-point operations per second in a product of two `f32` matrices of 2048 x 2048, the
    /// best of several.
    pub(crate) matmul_peak: f64,
    /// Which part of the CPU's time other programs of this machine had, until [`Machine::ended`];
    /// `None` if the system does not report it.
    pub(crate) others: Option<f64>,
    /// The same of what the host of a virtual machine gave to others.
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

    /// The same machine when all is measured.
    pub(crate) fn ended(self) -> Self {
        let passed = self
            .began
            .zip(CpuTime::now())
            .map(|(began, now)| now.since(began))
            .filter(|passed| passed.all > 0);
        Self {
            others: passed.map(CpuTime::others),
            stolen: passed.map(CpuTime::stolen),
            ..self
        }
    }
}

/// What this machine's CPU did, in ticks of all its threads.
#[derive(Clone, Copy, Debug)]
struct CpuTime {
    all: u64,
    /// With nothing to do, or waiting for a disk.
    idle: u64,
    stolen: u64,
    /// For this process.
    own: u64,
}

impl CpuTime {
    /// Since it started; `None` if the system does not report it.
    fn now() -> Option<Self> {
        let [machine, process] = ["/proc/stat", "/proc/self/stat"].map(fs_err::read_to_string);
        Self::read(&machine.ok()?, &process.ok()?)
    }

    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal,
    /// and two that are part of the first two. And from `/proc/self/stat`, where user and system
    /// are the 12th and the 13th number after the program's name in brackets.
    fn read(machine: &str, process: &str) -> Option<Self> {
        let numbers = |text: &str, skipped: usize, count: usize| -> Option<Vec<u64>> {
            let numbers = text.split_whitespace().skip(skipped).take(count);
            numbers
                .map(|number| number.parse().ok())
                .collect::<Option<Vec<_>>>()
                .filter(|numbers| numbers.len() == count)
        };
        let machine = numbers(machine.lines().next()?.strip_prefix("cpu ")?, 0, 8)?;
        let process = numbers(process.rsplit_once(')')?.1, 11, 2)?;
        let sum = |ticks: &[u64]| ticks.iter().sum();
        Some(Self {
            all: sum(&machine),
            idle: sum(&machine[3..5]),
            stolen: machine[7],
            own: sum(&process),
        })
    }

    fn since(self, began: Self) -> Self {
        let passed = |of: fn(Self) -> u64| of(self).saturating_sub(of(began));
        Self {
            all: passed(|time| time.all),
            idle: passed(|time| time.idle),
            stolen: passed(|time| time.stolen),
            own: passed(|time| time.own),
        }
    }

    /// Time of other programs, and of the system for them, as a share of all.
    fn others(self) -> f64 {
        self.share(self.all.saturating_sub(self.idle + self.stolen + self.own))
    }

    /// As a share of all time.
    fn stolen(self) -> f64 {
        self.share(self.stolen)
    }

    fn share(self, ticks: u64) -> f64 {
        ticks as f64 / self.all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_others_and_stolen_time_are_shares_of_all() {
        let process = |ticks: &str| {
            format!("7 (a ) b) R 1 7 7 0 -1 4194304 9 0 0 0 {ticks} 0 0 20 0 2 0 5 6 7\n")
        };
        let at = |line: &str, ticks: &str| {
            CpuTime::read(&format!("{line}\ncpu0 1 2 3\n"), &process(ticks))
        };
        let began = at("cpu  100 10 40 800 20 0 5 25 7 0", "50 10").expect("it is whole");
        let ended = at("cpu  150 10 50 820 20 0 5 45 9 0", "70 15").expect("it is whole");
        // Of 100 ticks 20 were idle and 20 stolen, and 25 were this process's.
        let passed = ended.since(began);
        assert!(
            (passed.stolen() - 0.2).abs() < 1e-12 && (passed.others() - 0.35).abs() < 1e-12,
            "{passed:?}"
        );
        let nothing = began.since(began);
        assert!(nothing.stolen().abs() < 1e-12 && nothing.others().abs() < 1e-12);
        assert!(at("cpu  1 2 3", "1 2").is_none() && at("intr 1 2 3 4 5 6 7 8", "1 2").is_none());
        assert!(CpuTime::read("cpu  100 10 40 800 20 0 5 25 7 0", "7 (a) R 1").is_none());
    }
}
