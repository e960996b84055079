//! The kernel: one pass each way, and nothing but the output is kept.

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

struct Forward<'a>(&'a mut [f32]);

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(|value| *value = tanh_of(*value));
    }
}

struct Backward<'a> {
    grads: &'a mut [f32],
    output: &'a [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.grads
            .iter_mut()
            .zip(self.output)
            .for_each(|(grad, output)| *grad *= 1.0 - output * output);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, activation};

    use super::super::tanh;
    use super::*;
    use crate::flex::tests::{assert_near, elements};

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for shape in [[1, 1, 3], [2, 5, 17], [70, 3, 100]] {
            let random = || {
                Tensor::<3>::random(shape, Distribution::Uniform(-4.0, 4.0), &Device::flex())
                    .into_data()
            };
            let device = Device::flex().autodiff();
            let input = Tensor::<3>::from_data(random(), &device).require_grad();
            let upstream = Tensor::<3>::from_data(random(), &device);
            let [kernel, plain] =
                [tanh(input.clone()), activation::tanh(input.clone())].map(|output| {
                    let gradients = (output.clone() * upstream.clone()).sum().backward();
                    [
                        elements(output),
                        elements(input.grad(&gradients).expect("it is tracked")),
                    ]
                });
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert_near(kernel, plain, 1e-6);
            }
            assert_eq!(elements(tanh(input.clone().inner())), kernel[0]);
        }
    }
}
