//! Dropout of attention weights into a second array, since the softmax's gradient needs them as
//! they were before it.

use crate::dropout::mask::Mask;
use crate::flex::vector::Kernel;

/// `output = input * mask`.
pub(super) struct Dropping<'a> {
    pub(super) output: &'a mut [f32],
    pub(super) input: &'a [f32],
    pub(super) mask: Mask,
    /// The place of the first number in the mask.
    pub(super) first: u32,
}

impl Kernel for Dropping<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((output, input), index) in self.output.iter_mut().zip(self.input).zip(self.first..) {
            *output = input * self.mask.at(index);
        }
    }
}
