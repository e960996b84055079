//! Small functions that kernels share: sums and zeros of vectors.
//!
//! A `Vector<f32, N>` is `N` neighboring elements that a thread reads or writes with one
//! instruction; an `Array` is private to a thread, in registers if every index is known to the
//! compiler, hence the unrolled loops.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The sum of the elements of a vector, added in their order.
#[cube]
pub(crate) fn sum<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for i in 0..N::value() {
        sum += vector.extract(i);
    }
    sum
}

/// An array of `len` zero vectors, in registers.
#[cube]
pub(crate) fn zeros<N: Size>(#[comptime] len: usize) -> Array<Vector<f32, N>> {
    let mut zeros = Array::<Vector<f32, N>>::new(len);
    #[unroll]
    for i in 0..len {
        zeros[i] = Vector::new(0.0f32);
    }
    zeros
}
