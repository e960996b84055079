//! Masks of integer operations of a device, made where they are used: no generator, no state and nothing to wait for.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::Dropped;
use super::hash::hash;

/// Rounds of the Feistel network (Luby and Rackoff, 1988). One product is a weak round function: with 4 and 5 rounds
/// places are correlated; with 7, pairs and keys are as independent as with `SplitMix64`. With more, a residual sum and a norm would not
/// fit into the 64 operations of a fused kernel.
const ROUNDS: u32 = 7;
/// An odd factor below 2^15, so that its product with 16 bits is below 2^31.
const FACTOR: i32 = 0x6d2b;
/// Which 16 bits of a product go on: from the middle, where each depends on many bits of both factors.
const SHIFT: i32 = 10;
/// The lower half of 32 bits.
const LOW: i32 = 0xffff;

/// A mask that is not made yet.
///
/// A Feistel network of 16-bit halves permutes the place of each number. So no product leaves 31 bits, and it does not
/// matter what a device does on overflow, which CUDA leaves undefined.
#[derive(Clone, Debug)]
pub(crate) struct ComposedMask<const D: usize> {
    shape: [usize; D],
    dropped: Dropped,
    /// The place of the first number of each row of the last axis, and places within a row.
    places: [Tensor<D, Int>; 2],
}

impl<const D: usize> ComposedMask<D> {
    pub(crate) fn new(shape: [usize; D], dropped: Dropped, device: &Device) -> Self {
        let (mut of_rows, mut of_columns) = (shape, [1; D]);
        let width = std::mem::replace(&mut of_rows[D - 1], 1);
        of_columns[D - 1] = width;
        // Two axes of small numbers in place of one large tensor, which would have to be read.
        let rows: Vec<i32> = (0..of_rows.iter().product()).map(|row: usize| (row * width) as i32).collect();
        let columns: Vec<i32> = (0..width as i32).collect();
        let tensor = |places: Vec<i32>, shape| Tensor::from_data(TensorData::new(places, shape), device);
        Self { shape, dropped, places: [tensor(rows, of_rows), tensor(columns, of_columns)] }
    }

    /// What to multiply by: 0 or `1 / keep`.
    pub(crate) fn scaled(&self) -> Tensor<D> {
        let Dropped { keep, key } = self.dropped;
        let [rows, columns] = self.places.clone();
        let device = rows.device();
        let places = rows + columns;
        let (mut left, mut right) = (places.clone().bitwise_right_shift_scalar(16), places.bitwise_and_scalar(LOW));
        for round in 0..ROUNDS {
            let key = (hash(hash(key as u32 ^ round).wrapping_add((key >> 32) as u32)) >> 16) as i32;
            let product = right.clone().bitwise_xor_scalar(key).mul_scalar(FACTOR);
            let mixed = product.bitwise_right_shift_scalar(SHIFT).bitwise_and_scalar(LOW);
            (left, right) = (right, left.bitwise_xor(mixed));
        }
        // 31 of the 32 bits, so that the sign stays out of it.
        let bits = left.bitwise_left_shift_scalar(15).bitwise_xor(right.bitwise_right_shift_scalar(1));
        let threshold = (keep * f64::from(i32::MAX)) as i32;
        // Not a cast of the comparison, which would not be fused.
        Tensor::zeros(self.shape, &device).mask_fill(bits.lower_equal_elem(threshold), 1.0 / keep)
    }
}
