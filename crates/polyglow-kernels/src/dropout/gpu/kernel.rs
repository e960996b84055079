//! One pass over a flat tensor: dropout, a residual sum, and a conversion between formats. A thread
//! has one vector.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::mask::{DropoutMask, scales_at};

/// Writes `residual + input * mask` in the format of the output, with a residual or not, and with a
/// mask or not.
#[cube(launch)]
pub(super) fn drop_and_add<I: Float, O: Float, N: Size>(
    residual: &[Vector<O, N>],
    input: &[Vector<I, N>],
    output: &mut [Vector<O, N>],
    vectors: u32,
    mask: DropoutMask,
    #[comptime] has_residual: bool,
    #[comptime] has_dropout: bool,
    #[define(I, O)] _types: [ElemType; 2],
) {
    let index = ABSOLUTE_POS;
    if index < vectors as usize {
        let mut value = Vector::<f32, N>::cast_from(input[index]);
        // Both conditions are known when the kernel is compiled, so no variant has a branch.
        if has_dropout {
            value *= scales_at::<N>(&mask, index);
        }
        if has_residual {
            value += Vector::cast_from(residual[index]);
        }
        output[index] = Vector::cast_from(value);
    }
}
