//! Dropout of attention weights, where the weights themselves are kept.

use crate::dropout::mask::Mask;
use crate::vector::Kernel;

/// Weights become dropped weights.
pub(super) struct Dropping<'a> {
    pub(super) output: &'a mut [f32],
    pub(super) input: &'a [f32],
    pub(super) mask: Mask,
}

impl Kernel for Dropping<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((place, output), input) in (0u32..).zip(self.output).zip(self.input) {
            *output = input * self.mask.at(place);
        }
    }
}
