//! Dropout with a residual sum on the CPU: `residual + input * mask` in one pass.
//!
//! Arrays are flat, and a task is [`MASK_PART`] elements with their part of the mask. Each element
//! of the mask is computed where it is used, in both passes, which costs less than reading a stored
//! one.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::mask::Mask;
use super::{Dropped, MASK_PART};
use crate::flex::vector::{Kernel, vectorized};
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, from_values, mode_of_both, read, record,
};

/// [`super::add_dropped`] on flex with autodiff.
pub(super) fn add_dropped(
    residual: &Tensor<2>,
    input: &Tensor<2>,
    dropped: Dropped,
) -> Option<Tensor<2>> {
    if mode_of_both(input, residual) != Some(Mode::Training) {
        return None;
    }
    let shape = input.dims();
    assert_eq!(residual.dims(), shape, "the two sides of a residual sum");
    let (residual, residual_node) = read(residual.clone());
    let (input, input_node) = read(input.clone());
    // A copy to add to: the residual may be needed elsewhere.
    let mut output = residual.slice().to_vec();
    multiply_add(&mut output, input.slice(), Mask::new(dropped));
    Some(record(
        State { shape, dropped },
        [residual_node, input_node],
        from_values(output, shape),
    ))
}

/// The backward pass: the key of the mask is all that it needs.
#[derive(Clone, Debug)]
struct State {
    shape: [usize; 2],
    dropped: Dropped,
}

impl BackwardPass<2> for State {
    fn gradients(
        self,
        gradient: FlexTensor,
        [_, tracks_input]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let grad_input = tracks_input.then(|| {
            let gradient = Contiguous::new(gradient.clone());
            let mut grad_input = vec![0.0; gradient.slice().len()];
            multiply_add(&mut grad_input, gradient.slice(), Mask::new(self.dropped));
            from_values(grad_input, self.shape)
        });
        // The residual passes the gradient on as it is.
        [Some(gradient), grad_input]
    }
}

/// Adds `input * mask` to the sums.
fn multiply_add(sums: &mut [f32], input: &[f32], mask: Mask) {
    let parts = sums
        .par_chunks_mut(MASK_PART)
        .zip(input.par_chunks(MASK_PART))
        .enumerate();
    parts.for_each(|(part, (sums, input))| {
        vectorized(MultiplyAdd {
            sums,
            input,
            mask: mask.part(part),
        });
    });
}

/// Adds `input * mask` to the sums of one part.
struct MultiplyAdd<'a> {
    sums: &'a mut [f32],
    input: &'a [f32],
    mask: Mask,
}

impl Kernel for MultiplyAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The range stands last, or the loop would not be vectorized (`Mask::at`).
        for ((sum, value), index) in self.sums.iter_mut().zip(self.input).zip(0..) {
            *sum += value * self.mask.at(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::super::{Dropped, add_dropped};
    use super::*;
    use crate::flex::tests::{elements, gradient_of};

    #[test]
    fn the_backward_pass_drops_what_the_forward_pass_drops() {
        let device = Device::flex().autodiff();
        let shape = [123, 100];
        let residual = Tensor::ones(shape, &device).require_grad();
        let input = Tensor::ones(shape, &device).require_grad();
        let dropped = Dropped { keep: 0.75, key: 9 };
        let output: Tensor<2> =
            add_dropped(&residual, &input, dropped).expect("the kernel is there");
        let gradients = (output.clone() * 2.0).sum().backward();
        let grad_input = gradient_of(&input, &gradients);
        let output = elements(output);
        let kept = output.iter().filter(|value| **value > 1.0).count();
        assert!((kept as f64 / output.len() as f64 - 0.75).abs() < 0.02);
        for (output, grad) in output.iter().zip(&grad_input) {
            let mask = if *output > 1.0 { 4.0 / 3.0 } else { 0.0 };
            assert!((output - 1.0 - mask).abs() < 1e-6 && (grad - 2.0 * mask).abs() < 1e-6);
        }
        let grad_residual = gradient_of(&residual, &gradients);
        assert!(grad_residual.iter().all(|grad| (grad - 2.0).abs() < 1e-6));
    }
}
