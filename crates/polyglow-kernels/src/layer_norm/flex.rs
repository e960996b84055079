//! The kernel: two passes over a row forwards, two backwards.

use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::flex::row::{BLOCK, total_of_blocks};
use crate::flex::vector::{Kernel, dot, total, vectorized};
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, read, record};

/// [`super::layer_norm`] on flex with autodiff.
pub(super) fn layer_norm(
    input: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
) -> Tensor<2> {
    let shape @ [_, width] = input.dims();
    assert_eq!(
        (gamma.dims(), beta.dims()),
        ([width], [width]),
        "a factor and a shift for each element of a row"
    );
    let (input, input_node) = read(input);
    let (gamma, gamma_node) = read(gamma);
    let (beta, beta_node) = read(beta);
    let mut standard = input.slice().to_vec();
    let mut output = vec![0.0; standard.len()];
    let mut scales = vec![0.0; standard.len() / width.max(1)];
    let block = (BLOCK * width).max(1);
    let blocks = standard
        .par_chunks_mut(block)
        .zip(output.par_chunks_mut(block))
        .zip(scales.par_chunks_mut(BLOCK));
    blocks.for_each(|((standard, output), scales)| {
        vectorized(Forward {
            standard,
            output,
            scales,
            gamma: gamma.slice(),
            beta: beta.slice(),
            epsilon: epsilon as f32,
        });
    });
    let output = from_values(output, shape);
    record(
        State {
            shape,
            standard,
            scales,
            gamma,
        },
        [input_node, gamma_node, beta_node],
        output,
    )
}

/// What the gradients are made from. The input is not kept: it occurs in no formula but through
/// `standard`.
#[derive(Clone, Debug)]
struct State {
    shape: [usize; 2],
    /// The input less its mean, over its standard deviation; `y` in the formulas.
    standard: Vec<f32>,
    /// One over the standard deviation of each row.
    scales: Vec<f32>,
    gamma: Contiguous,
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self {
            shape,
            standard,
            scales,
            gamma,
        } = self;
        let [_, width] = shape;
        let gradient = Contiguous::new(gradient);
        // Blocks of a fixed size, whose sums are added in order: so no bit depends on the number of
        // threads.
        let block = (BLOCK * width).max(1);
        let mut grad_input = vec![0.0; standard.len()];
        let blocks = grad_input
            .par_chunks_mut(block)
            .zip(gradient.slice().par_chunks(block))
            .zip(standard.par_chunks(block).zip(scales.par_chunks(BLOCK)));
        let sums: Vec<Vec<f32>> = blocks
            .map(|((grad_input, gradient), (standard, scales))| {
                // Those of gamma, then those of beta.
                let mut sums = vec![0.0; 2 * width];
                let (grad_gamma, grad_beta) = sums.split_at_mut(width);
                vectorized(Backward {
                    grad_input,
                    gradient,
                    standard,
                    scales,
                    gamma: gamma.slice(),
                    grad_gamma,
                    grad_beta,
                });
                sums
            })
            .collect();
        let mut grad_gamma = total_of_blocks(&sums, 2 * width);
        let grad_beta = grad_gamma.split_off(width);
        [
            Some(from_values(grad_input, shape)),
            Some(from_values(grad_gamma, [width])),
            Some(from_values(grad_beta, [width])),
        ]
    }
}

struct Forward<'a> {
    /// The input, which becomes the standardized input.
    standard: &'a mut [f32],
    output: &'a mut [f32],
    scales: &'a mut [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    epsilon: f32,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let width = self.gamma.len();
        let rows = self
            .standard
            .chunks_exact_mut(width)
            .zip(self.output.chunks_exact_mut(width))
            .zip(self.scales);
        for ((standard, output), scale) in rows {
            let mean = total(standard) / width as f32;
            // Before the squares are summed: `mean(x²) - mean(x)²` in one pass would cancel digits.
            for value in standard.iter_mut() {
                *value -= mean;
            }
            let variance = dot(standard, standard) / width as f32;
            *scale = 1.0 / (variance + self.epsilon).sqrt();
            for (((standard, output), gamma), beta) in standard
                .iter_mut()
                .zip(output)
                .zip(self.gamma)
                .zip(self.beta)
            {
                *standard *= *scale;
                *output = *standard * gamma + beta;
            }
        }
    }
}

struct Backward<'a> {
    grad_input: &'a mut [f32],
    gradient: &'a [f32],
    standard: &'a [f32],
    scales: &'a [f32],
    gamma: &'a [f32],
    grad_gamma: &'a mut [f32],
    grad_beta: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    /// With `g = gradient * gamma`: `scale * (g - mean(g) - standard * mean(g * standard))`.
    #[inline(always)]
    fn run(self) {
        let width = self.gamma.len();
        let rows = self
            .grad_input
            .chunks_exact_mut(width)
            .zip(self.gradient.chunks_exact(width));
        for ((grad_input, gradient), (standard, scale)) in
            rows.zip(self.standard.chunks_exact(width).zip(self.scales))
        {
            // Three results from the same two rows in one pass.
            for index in 0..width {
                grad_input[index] = gradient[index] * self.gamma[index];
                self.grad_gamma[index] += gradient[index] * standard[index];
                self.grad_beta[index] += gradient[index];
            }
            let mean = total(grad_input) / width as f32;
            let grad = dot(grad_input, standard) / width as f32;
            for (value, standard) in grad_input.iter_mut().zip(standard) {
                *value = scale * (*value - mean - standard * grad);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};

    use super::*;
    use crate::flex::tests::{assert_near, elements};

    type Function = fn(Tensor<2>, Tensor<1>, Tensor<1>, f64) -> Tensor<2>;

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        let device = Device::flex().autodiff();
        for shape in [[1, 3], [10, 16], [210, 37]] {
            let random = |scale: f64| Distribution::Uniform(-scale, scale);
            let tracked = |tensor: Tensor<1>| {
                Tensor::<1>::from_data(tensor.into_data(), &device).require_grad()
            };
            let weight = || tracked(Tensor::random([shape[1]], random(2.0), &Device::flex()));
            let gamma = weight();
            let beta = weight();
            let input = Tensor::<2>::random(shape, random(3.0), &Device::flex()).into_data();
            let upstream = Tensor::<2>::random(shape, random(1.0), &device);
            let run = |function: Function| {
                let input = Tensor::<2>::from_data(input.clone(), &device).require_grad();
                let output = function(input.clone(), gamma.clone(), beta.clone(), 1e-5);
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                let of =
                    |tensor: &Tensor<1>| elements(tensor.grad(&gradients).expect("it is tracked"));
                let grad_input = elements(input.grad(&gradients).expect("it is tracked"));
                [elements(output), grad_input, of(&gamma), of(&beta)]
            };
            for (kernel, plain) in run(layer_norm).iter().zip(&run(super::super::plain)) {
                assert_near(kernel, plain, 2e-5);
            }
        }
    }
}
