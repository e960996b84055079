//! Sums over all ranks, for gradients.
//!
//! Each rank receives its part of the values of all ranks, adds them in the order of the ranks, and
//! sends the sum to all. A ring sends as many bytes, but MPI's own sum adds in an order that
//! depends on the library and the network: the same training would then give other weights.

use half::bf16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use mpi::topology::SimpleCommunicator;
use mpi::traits::CommunicatorCollectives;

/// Replaces values by their sums over `ranks` ranks. All ranks call it with as many values, a
/// multiple of `ranks`.
pub(super) fn add(world: &SimpleCommunicator, values: &mut [f32], ranks: usize) {
    let mut received = vec![0f32; values.len()];
    world.all_to_all_into(&*values, &mut received[..]);
    let (sum, others) = received.split_at_mut(values.len() / ranks);
    for other in others.chunks_exact(sum.len()) {
        sum.iter_mut()
            .zip(other)
            .for_each(|(sum, value)| *sum += value);
    }
    world.all_gather_into(&*sum, values);
}

/// As [`add`], with values and sums that are rounded to bf16: half the bytes. The additions
/// themselves are in f32, so that an error does not grow with the ranks.
pub(super) fn add_rounded(world: &SimpleCommunicator, values: &mut [f32], ranks: usize) {
    let mut own = vec![bf16::ZERO; values.len()];
    own.convert_from_f32_slice(values);
    let mut received = vec![0u16; values.len()];
    world.all_to_all_into(own.reinterpret_cast(), &mut received[..]);
    let part = values.len() / ranks;
    let sum = &mut values[..part];
    let mut parts = received.reinterpret_cast::<bf16>().chunks_exact(part);
    if let Some(first) = parts.next() {
        first.convert_to_f32_slice(sum);
    }
    for other in parts {
        sum.iter_mut()
            .zip(other)
            .for_each(|(sum, value)| *sum += value.to_f32());
    }
    let mut rounded = vec![bf16::ZERO; part];
    rounded.convert_from_f32_slice(sum);
    world.all_gather_into(rounded.reinterpret_cast(), own.reinterpret_cast_mut());
    own.convert_to_f32_slice(values);
}
