//! Dropout masks in kernels for GPUs, with the same elements as `dropout/mask.rs` has on the CPU.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::dropout::{Dropped, MASK_PART};

/// A mask, as [`Mask`](crate::dropout::mask::Mask) has it.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct DropoutMask {
    low: u32,
    /// The upper half of the key, from which [`part_of`] makes the state of a part.
    pub(crate) high: u32,
    /// An element is kept if its hash is at most this.
    threshold: u32,
    /// `1 / keep`.
    scale: f32,
}

impl DropoutMask {
    /// Returns the argument of a kernel. Without dropout the kernel is compiled without a mask, and
    /// reads nothing of it.
    pub(crate) fn kernel_arg(dropped: Option<Dropped>) -> DropoutMaskLaunch {
        let Dropped { keep, key } = dropped.unwrap_or(Dropped { keep: 1.0, key: 0 });
        let threshold = (keep * f64::from(u32::MAX)) as u32;
        DropoutMaskLaunch::new(
            key as u32,
            (key >> 32) as u32,
            threshold,
            (1.0 / keep) as f32,
        )
    }
}

/// The state of a part of the mask, given `mask.high` or the state of the part around it, since
/// parts nest: what `Mask::part` computes on the CPU for an index of 32 bits.
#[cube]
pub(crate) fn part_of(high: u32, part: u32) -> u32 {
    hash(hash(high ^ hash(part)) + 1u32)
}

/// The element of the mask at this index of a part: 0 or `1 / keep`. `part` is from [`part_of`].
#[cube]
pub(crate) fn scale_at(mask: &DropoutMask, part: u32, index: u32) -> f32 {
    let bits = hash(hash(index ^ mask.low) + part);
    select(bits <= mask.threshold, mask.scale, 0.0f32)
}

/// The elements of the mask for a vector of a flat tensor; `index` counts vectors.
#[cube]
pub(crate) fn scales_at<N: Size>(mask: &DropoutMask, index: usize) -> Vector<f32, N> {
    let mut scales = Vector::<f32, N>::new(0.0f32);
    let first = index * N::value();
    // A part is a whole number of vectors.
    let part = part_of(mask.high, (first / MASK_PART) as u32);
    #[unroll]
    for i in 0..N::value() {
        scales.insert(i, scale_at(mask, part, (first % MASK_PART + i) as u32));
    }
    scales
}

/// The hash of `dropout/hash.rs`. Products of `u32` wrap around in kernels, as they have to here.
#[cube]
fn hash(bits: u32) -> u32 {
    let first = (bits ^ (bits >> 16u32)) * 0x7feb_352du32;
    let second = (first ^ (first >> 15u32)) * 0x846c_a68bu32;
    second ^ (second >> 16u32)
}
