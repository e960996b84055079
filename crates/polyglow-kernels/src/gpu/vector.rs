//! What kernels do with vectors of numbers.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The numbers of a vector, added up in their order.
#[cube]
pub(crate) fn sum<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..N::value() {
        sum += vector.extract(i);
    }
    sum
}

/// So many vectors of zeros, in registers.
#[cube]
pub(crate) fn zeros<N: Size>(#[comptime] len: usize) -> Array<Vector<f32, N>> {
    let mut zeros = Array::<Vector<f32, N>>::new(len);
    #[unroll]
    for i in 0..len {
        zeros[i] = Vector::new(0.0f32);
    }
    zeros
}

/// Writes `len` vectors from `start` on, in the format of what they are written to.
#[cube]
pub(crate) fn write<T: Float, N: Size>(
    numbers: &mut [Vector<T, N>],
    start: usize,
    written: &Array<Vector<f32, N>>,
    #[comptime] len: usize,
) {
    #[unroll]
    for i in 0..len {
        numbers[start + i] = Vector::cast_from(written[i]);
    }
}
