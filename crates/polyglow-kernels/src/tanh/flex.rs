//! The hyperbolic tangent on the CPU: one pass in place in each direction, in blocks of elements
//! that are worth a task. The output is all that is kept, and the next operation holds it anyway.

use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::flex::row::rows_per_task;
use crate::flex::vector::{Kernel, tanh as tanh_of, vectorized};
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, into_values, open, record};

/// [`super::tanh`] on flex.
pub(super) fn tanh<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    let shape = input.dims();
    let (input, node) = open(input);
    let mut values = into_values(input);
    // Elements are independent: rows of a single one.
    let block = rows_per_task(1);
    if values.len() <= block {
        // Waking another thread would take longer.
        vectorized(Forward(&mut values));
    } else {
        values
            .par_chunks_mut(block)
            .for_each(|values| vectorized(Forward(values)));
    }
    let output = from_values(values, shape);
    record(
        State {
            shape,
            output: Contiguous::new(output.clone()),
        },
        [node],
        output,
    )
}

/// The data that the forward pass keeps for the gradient.
#[derive(Clone, Debug)]
struct State<const D: usize> {
    shape: [usize; D],
    output: Contiguous,
}

impl<const D: usize> BackwardPass<1> for State<D> {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut grads = into_values(gradient);
        let output = self.output.slice();
        let block = rows_per_task(1);
        if grads.len() <= block {
            vectorized(Backward {
                grads: &mut grads,
                output,
            });
        } else {
            let blocks = grads.par_chunks_mut(block).zip(output.par_chunks(block));
            blocks.for_each(|(grads, output)| vectorized(Backward { grads, output }));
        }
        [Some(from_values(grads, self.shape))]
    }
}

/// Overwrites elements with their hyperbolic tangents.
struct Forward<'a>(&'a mut [f32]);

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for value in self.0 {
            *value = tanh_of(*value);
        }
    }
}

/// Multiplies gradients by `1 - y²`.
struct Backward<'a> {
    grads: &'a mut [f32],
    output: &'a [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (grad, output) in self.grads.iter_mut().zip(self.output) {
            *grad *= 1.0 - output * output;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::activation;

    use super::super::tanh;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, random, random_tracked, with_autodiff,
    };

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for shape in [[1, 1, 3], [2, 5, 17], [70, 3, 100]] {
            let input = random_tracked(shape, 4.0);
            let upstream = with_autodiff(&random(shape, 4.0));
            let [kernel, plain] =
                [tanh(input.clone()), activation::tanh(input.clone())].map(|output| {
                    let gradients = (output.clone() * upstream.clone()).sum().backward();
                    [elements(output), gradient_of(&input, &gradients)]
                });
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert_near(kernel, plain, 1e-6);
            }
            assert_eq!(elements(tanh(input.clone().inner())), kernel[0]);
        }
    }
}
