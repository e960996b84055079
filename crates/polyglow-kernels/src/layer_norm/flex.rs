//! Layer normalization on the CPU, with the formulas of [`crate::layer_norm()`].
//!
//! A matrix is contiguous rows of `width`, and a task is [`BLOCK`] rows. The formulas visit a row
//! several times, but it fits into the first cache, so main memory is read and written once in each
//! direction.
//!
//! The gradients of `gamma` and `beta` are sums over all rows. Each task sums its own rows, and the
//! sums of tasks are added in their order; since a task has a fixed number of rows, no bit depends
//! on the number of threads.

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
    // A copy of the input, which becomes `y` in place; the input may be needed elsewhere.
    let mut normalized = input.slice().to_vec();
    let mut output = vec![0.0; normalized.len()];
    let mut scales = vec![0.0; normalized.len() / width.max(1)];
    let block = (BLOCK * width).max(1);
    let blocks = normalized
        .par_chunks_mut(block)
        .zip(output.par_chunks_mut(block))
        .zip(scales.par_chunks_mut(BLOCK));
    blocks.for_each(|((normalized, output), scales)| {
        vectorized(Forward {
            normalized,
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
            normalized,
            scales,
            gamma,
        },
        [input_node, gamma_node, beta_node],
        output,
    )
}

/// The data that the forward pass keeps for the gradients. They need the input only through
/// `normalized`.
#[derive(Clone, Debug)]
struct State {
    /// `[rows, width]`.
    shape: [usize; 2],
    /// `y` in the formulas.
    normalized: Vec<f32>,
    /// `scale` of each row.
    scales: Vec<f32>,
    gamma: Contiguous,
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self {
            shape,
            normalized,
            scales,
            gamma,
        } = self;
        let [_, width] = shape;
        let gradient = Contiguous::new(gradient);
        let block = (BLOCK * width).max(1);
        let mut grad_input = vec![0.0; normalized.len()];
        let blocks = grad_input
            .par_chunks_mut(block)
            .zip(gradient.slice().par_chunks(block))
            .zip(normalized.par_chunks(block).zip(scales.par_chunks(BLOCK)));
        let sums: Vec<Vec<f32>> = blocks
            .map(|((grad_input, gradient), (normalized, scales))| {
                // The gradient of gamma, then that of beta: one array, so that both are summed over
                // tasks in one pass.
                let mut sums = vec![0.0; 2 * width];
                let (grad_gamma, grad_beta) = sums.split_at_mut(width);
                vectorized(Backward {
                    grad_input,
                    gradient,
                    normalized,
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

/// Normalizes a block of rows.
struct Forward<'a> {
    /// The input, which becomes `y`.
    normalized: &'a mut [f32],
    /// As large as `normalized`, and overwritten.
    output: &'a mut [f32],
    /// One for each row, overwritten.
    scales: &'a mut [f32],
    /// `[width]`, as `beta`.
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
            .normalized
            .chunks_exact_mut(width)
            .zip(self.output.chunks_exact_mut(width))
            .zip(self.scales);
        for ((normalized, output), scale) in rows {
            // The row still has `x`, then `x - mean`, then `y`.
            let mean = total(normalized) / width as f32;
            // A pass of its own, although `mean(x²) - mean(x)²` takes one less: the difference of
            // two large values loses digits.
            for value in normalized.iter_mut() {
                *value -= mean;
            }
            let variance = dot(normalized, normalized) / width as f32;
            *scale = 1.0 / (variance + self.epsilon).sqrt();
            for (((normalized, output), gamma), beta) in normalized
                .iter_mut()
                .zip(output)
                .zip(self.gamma)
                .zip(self.beta)
            {
                *normalized *= *scale;
                *output = *normalized * gamma + beta;
            }
        }
    }
}

/// Computes the gradients of a block of rows, and adds to the sums of those of gamma and beta.
struct Backward<'a> {
    /// Overwritten.
    grad_input: &'a mut [f32],
    /// The gradient of the output.
    gradient: &'a [f32],
    /// `y`, as the forward pass kept it.
    normalized: &'a [f32],
    scales: &'a [f32],
    gamma: &'a [f32],
    /// `[width]`; added to, as `grad_beta`.
    grad_gamma: &'a mut [f32],
    grad_beta: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    /// `dx = scale (h - mean(h) - y * mean(h * y))` with `h = g * gamma`, which `grad_input` holds
    /// first.
    #[inline(always)]
    fn run(self) {
        let width = self.gamma.len();
        let rows = self
            .grad_input
            .chunks_exact_mut(width)
            .zip(self.gradient.chunks_exact(width));
        for ((grad_input, gradient), (normalized, scale)) in
            rows.zip(self.normalized.chunks_exact(width).zip(self.scales))
        {
            // `h` and both addends to the sums from the same two rows, in one pass.
            for index in 0..width {
                grad_input[index] = gradient[index] * self.gamma[index];
                self.grad_gamma[index] += gradient[index] * normalized[index];
                self.grad_beta[index] += gradient[index];
            }
            // dx, in place of `h`.
            let mean = total(grad_input) / width as f32;
            let mean_product = dot(grad_input, normalized) / width as f32;
            for (value, normalized) in grad_input.iter_mut().zip(normalized) {
                *value = scale * (*value - mean - normalized * mean_product);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, random, random_tracked, with_autodiff,
    };

    type Function = fn(Tensor<2>, Tensor<1>, Tensor<1>, f64) -> Tensor<2>;

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        for shape in [[1, 3], [10, 16], [210, 37]] {
            let gamma = random_tracked([shape[1]], 2.0);
            let beta = random_tracked([shape[1]], 2.0);
            let input = random_tracked(shape, 3.0);
            let upstream = with_autodiff(&random(shape, 1.0));
            let run = |function: Function| {
                let output = function(input.clone(), gamma.clone(), beta.clone(), 1e-5);
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                [
                    elements(output),
                    gradient_of(&input, &gradients),
                    gradient_of(&gamma, &gradients),
                    gradient_of(&beta, &gradients),
                ]
            };
            for (kernel, plain) in run(layer_norm).iter().zip(&run(super::super::plain)) {
                assert_near(kernel, plain, 2e-5);
            }
        }
    }
}
