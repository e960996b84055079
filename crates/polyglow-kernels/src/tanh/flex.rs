//! The kernel: one pass each way, and nothing but the output is kept.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::flex::{FlexTensor, Numbers, close_plain, from_values, open, open_plain, record, values_of};
use crate::row::rows_per_task;
use crate::vector::{Kernel, tanh as tanh_of, vectorized};

/// [`super::tanh`] on flex with autodiff.
pub(super) fn tanh<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    let shape = input.dims();
    let (input, node) = open(input).into_parts();
    let output = forward(input, shape);
    record(Tanh::<D>, [node], Numbers::of(output.clone()), output)
}

/// [`super::tanh`] on flex without autodiff.
pub(super) fn apply<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    let shape = input.dims();
    close_plain(forward(open_plain(input), shape))
}

fn forward<const D: usize>(input: FlexTensor, shape: [usize; D]) -> FlexTensor {
    let mut values = values_of(input);
    let block = rows_per_task(1);
    if values.len() <= block {
        // Waking another thread would take longer.
        vectorized(Forward(&mut values));
    } else {
        values.par_chunks_mut(block).for_each(|values| vectorized(Forward(values)));
    }
    from_values(values, shape)
}

#[derive(Debug)]
struct Tanh<const D: usize>;

impl<const D: usize> Backward<Flex, 1> for Tanh<D> {
    type State = Numbers;

    fn backward(self, ops: Ops<Numbers, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        let [Some(node)] = ops.parents else { return };
        let shape: [usize; D] = gradient.layout().shape().dims();
        let (mut slopes, output) = (values_of(gradient), ops.state.slice());
        let block = rows_per_task(1);
        if slopes.len() <= block {
            vectorized(Back { slopes: &mut slopes, output });
        } else {
            let blocks = slopes.par_chunks_mut(block).zip(output.par_chunks(block));
            blocks.for_each(|(slopes, output)| vectorized(Back { slopes, output }));
        }
        grads.register::<Flex>(node.id, from_values(slopes, shape));
    }
}

struct Forward<'a>(&'a mut [f32]);

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(|value| *value = tanh_of(*value));
    }
}

struct Back<'a> {
    slopes: &'a mut [f32],
    output: &'a [f32],
}

impl Kernel for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.slopes.iter_mut().zip(self.output).for_each(|(slope, output)| *slope *= 1.0 - output * output);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, activation};

    use super::super::tanh;
    use super::*;
    use crate::flex::tests::{assert_near, numbers};

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for shape in [[1, 1, 3], [2, 5, 17], [70, 3, 100]] {
            let random = || Tensor::<3>::random(shape, Distribution::Uniform(-4.0, 4.0), &Device::flex()).into_data();
            let device = Device::flex().autodiff();
            let input = Tensor::<3>::from_data(random(), &device).require_grad();
            let slopes = Tensor::<3>::from_data(random(), &device);
            let [kernel, plain] = [tanh(input.clone()), activation::tanh(input.clone())].map(|output| {
                let gradients = (output.clone() * slopes.clone()).sum().backward();
                [numbers(output), numbers(input.grad(&gradients).expect("it is tracked"))]
            });
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert_near(kernel, plain, 1e-6);
            }
            assert_eq!(numbers(tanh(input.clone().inner())), kernel[0]);
        }
    }
}
