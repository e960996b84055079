//! The kernel: the mask is made as it is needed, forwards and again backwards.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::Dropped;
use super::mask::Mask;
use crate::flex::{Numbers, from_values, open, record};
use crate::vector::{Kernel, vectorized};

/// Numbers that share a part of the mask.
const PART: usize = 1 << 13;

/// [`super::add_dropped`] on flex with autodiff.
pub(super) fn add_dropped(residual: Tensor<3>, input: Tensor<3>, dropped: Dropped) -> Tensor<3> {
    let shape = input.dims();
    assert_eq!(residual.dims(), shape, "the two sides of a residual sum");
    let (residual, residual_node) = open(residual).into_parts();
    let (input, input_node) = open(input).into_parts();
    let mut output = Numbers::of(residual).slice().to_vec();
    multiply_add(&mut output, Numbers::of(input).slice(), Mask::new(dropped));
    record(AddDropped, [residual_node, input_node], (shape, dropped), from_values(output, shape))
}

#[derive(Debug)]
struct AddDropped;

impl Backward<Flex, 2> for AddDropped {
    type State = ([usize; 3], Dropped);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (shape, dropped) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node);
        let [residual, input] = ops.parents;
        if let Some(input) = input {
            let gradient = Numbers::of(gradient.clone());
            let mut of_input = vec![0.0; gradient.slice().len()];
            multiply_add(&mut of_input, gradient.slice(), Mask::new(dropped));
            grads.register::<Flex>(input.id, from_values(of_input, shape));
        }
        if let Some(residual) = residual {
            grads.register::<Flex>(residual.id, gradient);
        }
    }
}

/// Adds `input * mask` to the sums.
fn multiply_add(sums: &mut [f32], input: &[f32], mask: Mask) {
    let parts = sums.par_chunks_mut(PART).zip(input.par_chunks(PART)).enumerate();
    parts.for_each(|(part, (sums, input))| vectorized(MultiplyAdd { sums, input, mask: mask.part(part) }));
}

struct MultiplyAdd<'a> {
    sums: &'a mut [f32],
    input: &'a [f32],
    mask: Mask,
}

impl Kernel for MultiplyAdd<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((place, sum), value) in (0u32..).zip(self.sums).zip(self.input) {
            *sum += value * self.mask.at(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::super::{Dropped, add_dropped};
    use super::*;
    use crate::flex::tests::numbers;

    #[test]
    fn what_is_dropped_forwards_is_dropped_backwards() {
        let device = Device::flex().autodiff();
        let shape = [3, 41, 100];
        let (residual, input) =
            (Tensor::ones(shape, &device).require_grad(), Tensor::ones(shape, &device).require_grad());
        let dropped = Dropped { keep: 0.75, key: 9 };
        let output: Tensor<3> = add_dropped(&residual, &input, dropped).expect("the kernel is there");
        let gradients = (output.clone() * 2.0).sum().backward();
        let of_input = numbers(input.grad(&gradients).expect("it is tracked"));
        let output = numbers(output);
        let kept = output.iter().filter(|value| **value > 1.0).count();
        assert!((kept as f64 / output.len() as f64 - 0.75).abs() < 0.02);
        for (output, slope) in output.iter().zip(&of_input) {
            let mask = if *output > 1.0 { 4.0 / 3.0 } else { 0.0 };
            assert!((output - 1.0 - mask).abs() < 1e-6 && (slope - 2.0 * mask).abs() < 1e-6);
        }
        let of_residual = numbers(residual.grad(&gradients).expect("it is tracked"));
        assert!(of_residual.iter().all(|slope| (slope - 2.0).abs() < 1e-6));
    }
}
