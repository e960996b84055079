//! Estimates of the time of a step on known devices, from public figures.

use serde::Serialize;

use super::ledger::{Block, Units};

/// The share of a device's memory rate that kernels reach.
const MEMORY_SHARE: f64 = 0.75;
/// The share of a device's rate of products that the kernels of `CubeCL` are expected to reach;
/// cuBLAS reaches about 0.75 on an H100.
const PRODUCT_SHARE: f64 = 0.35;
/// The shortest time from the start of a kernel to that of the next, in seconds.
const LAUNCH: f64 = 4e-6;

/// A device by its data sheet.
struct Device {
    name: &'static str,
    /// Bytes a second.
    memory: f64,
    /// Floating-point operations a second in products of f32; of tf32 where `cuda` rounds to it.
    f32: f64,
    /// Floating-point operations a second in products of f16 and bf16 with f32 sums, without sparsity.
    half: f64,
    /// Floating-point operations a second of units for single numbers of f32.
    lanes: f64,
}

/// NVIDIA's data sheet of the H100 SXM and its paper on the Ada architecture, AMD's page on the
/// Radeon RX 7900 XTX, and Apple's on the M3 with ten GPU cores, whose f32 rate is 10 cores x 128
/// lanes x 2 x 1.4 GHz, and which has no faster unit for f16.
const DEVICES: [Device; 4] = [
    Device {
        name: "H100",
        memory: 3.35e12,
        f32: 494e12,
        half: 989e12,
        lanes: 66.9e12,
    },
    Device {
        name: "RTX 4090",
        memory: 1.008e12,
        f32: 82.6e12,
        half: 165e12,
        lanes: 82.6e12,
    },
    Device {
        name: "RX 7900 XTX",
        memory: 0.96e12,
        f32: 61.4e12,
        half: 122.8e12,
        lanes: 61.4e12,
    },
    Device {
        name: "M3",
        memory: 0.1e12,
        f32: 3.6e12,
        half: 3.6e12,
        lanes: 3.6e12,
    },
];

/// An estimate for one device.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Estimate {
    /// The device.
    pub(super) device: &'static str,
    /// The time of a step, in seconds.
    pub(super) seconds: f64,
}

/// Estimates how long the blocks take one after the other on each known device.
pub(super) fn estimates(blocks: &[Block]) -> Vec<Estimate> {
    let mut estimates = Vec::with_capacity(DEVICES.len());
    for device in &DEVICES {
        estimates.push(Estimate {
            device: device.name,
            seconds: blocks.iter().map(|block| device.seconds(block)).sum(),
        });
    }
    estimates
}

impl Device {
    /// Returns the longest of the times that a block's launches, its bytes and its products take, as if
    /// they overlapped perfectly.
    fn seconds(&self, block: &Block) -> f64 {
        let rate = match block.units {
            Some(Units::Half) => self.half,
            Some(Units::Lanes) => self.lanes,
            Some(Units::F32) | None => self.f32,
        };
        let products = block.flops / (PRODUCT_SHARE * rate);
        let memory = (block.read + block.written) as f64 / (MEMORY_SHARE * self.memory);
        let launches = LAUNCH * block.kernels.len() as f64;
        products.max(memory).max(launches)
    }
}
