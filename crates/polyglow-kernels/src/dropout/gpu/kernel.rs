//! Dropout number by number, and what else goes over a tensor so.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::draw::{Draw, scale_of};

/// `residual + input * mask`, without a residual or without a mask as well.
#[cube(launch)]
pub(super) fn drop_and_add<I: Float, O: Float, N: Size>(
    residual: &[Vector<O, N>],
    input: &[Vector<I, N>],
    output: &mut [Vector<O, N>],
    vectors: u32,
    draw: Draw,
    #[comptime] has_residual: bool,
    #[comptime] has_dropout: bool,
    #[define(I, O)] _types: [ElemType; 2],
) {
    let place = ABSOLUTE_POS;
    if place < vectors as usize {
        let mut value = Vector::<f32, N>::cast_from(input[place]);
        if has_dropout {
            value *= scale_of::<N>(&draw, place);
        }
        if has_residual {
            value += Vector::cast_from(residual[place]);
        }
        output[place] = Vector::cast_from(value);
    }
}
