//! Dropout of attention weights into a second array: `output = input * mask`. The gradient of the
//! softmax needs the weights as they were before dropout.

use crate::dropout::mask::Mask;
use crate::flex::vector::Kernel;

/// Writes `input * mask` to `output`.
pub(super) struct Dropping<'a> {
    pub(super) output: &'a mut [f32],
    pub(super) input: &'a [f32],
    pub(super) mask: Mask,
    /// The index of the first element in the mask.
    pub(super) first: u32,
}

impl Kernel for Dropping<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The range stands last, or the loop would not be vectorized (`Mask::at`).
        for ((output, input), index) in self.output.iter_mut().zip(self.input).zip(self.first..) {
            *output = input * self.mask.at(index);
        }
    }
}
