//! The sum of squares on GPUs: `sums[p] = Σ x²` over part `p`, one workgroup for each part.
//!
//! Parts have a fixed size and are added in their order by the caller, so the bits do not depend on
//! the device's scheduling, as they would with atomic additions.

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::gpu::operation::{queue, vector_size, workgroups};
use crate::gpu::vector;

/// Elements in a part. Results depend on it: it is not a tuning knob.
const PART: usize = 1 << 14;
/// Threads in a workgroup, a power of two, because their sums are added up by halves.
const THREADS: usize = 256;

/// [`super::square_sums`] on GPUs; `None` elsewhere.
pub(super) fn square_sums(values: &Tensor<1>) -> Option<Tensor<1>> {
    let [len] = values.dims();
    if cfg!(feature = "plain") || values.is_autodiff() || values.dtype() != DType::F32 || len == 0 {
        return None;
    }
    values.clone().try_into_primitive::<Cube>().ok()?;
    let vector = vector_size(len);
    let parts = len.div_ceil(PART);
    let launch = move |client: &Client, [values]: [CubeTensor; 1], [sums]: [CubeTensor; 1]| {
        let count = workgroups(parts);
        let dim = CubeDim::new_1d(THREADS as u32);
        let values = values.into_buffer_arg();
        let sums = sums.into_buffer_arg();
        sum::launch(
            client,
            count,
            dim,
            vector,
            values,
            sums,
            (len / vector) as u32,
        );
    };
    let [sums] = queue(
        "square sums",
        [values.clone().into()],
        [(vec![parts], DType::F32)],
        launch,
    );
    Some(sums.tensor())
}

/// Writes the sum of squares of a part, by the workgroup with its index: each thread sums every
/// [`THREADS`]th vector, and a tree over shared memory adds up the sums of the threads.
#[cube(launch)]
fn sum<N: Size>(values: &[Vector<f32, N>], sums: &mut [f32], len: u32) {
    let part = PART / N::value();
    let mut own = Vector::<f32, N>::new(0.0f32);
    let mut at = UNIT_POS as usize;
    // The last part may end before its size.
    while at < part {
        let index = CUBE_POS * part + at;
        if index < len as usize {
            own += values[index] * values[index];
        }
        at += THREADS;
    }
    let mut shared = Shared::<[f32]>::new_slice(THREADS);
    shared[UNIT_POS as usize] = vector::sum::<N>(own);
    // Half of the threads add the sums of the other half, until one has the sum of all.
    #[unroll]
    for i in 0..comptime!(THREADS.ilog2()) {
        sync_cube();
        let half = comptime!(THREADS >> (i + 1));
        if (UNIT_POS as usize) < half {
            let other = shared[UNIT_POS as usize + half];
            shared[UNIT_POS as usize] += other;
        }
    }
    // There may be more workgroups than parts, and those have summed nothing.
    if UNIT_POS == 0 && CUBE_POS < sums.len() {
        sums[CUBE_POS] = shared[0];
    }
}
