//! A linear map with its activation and dropout on the CPU: `mask * activation(x W + b)`.
//!
//! The product `x W`, `[rows, d_out]`, is overwritten in place by one pass for bias, activation and
//! dropout, in blocks of whole rows that are worth a task. Each block has its own part of the mask
//! of dropout; blocks depend on the width alone, so the mask is the same with any number of
//! threads, and the backward pass computes it again from its key.
//!
//! The derivative of the activation is kept in the cheapest form: for ReLU as the output,
//! which the next operation keeps anyway; for GELU and Swish as a copy of `x W + b`.

mod gate;

use burn::tensor::Tensor;
use rayon::prelude::*;

pub(super) use gate::gated;

use super::Activation;
use crate::dropout::mask::Mask;
use crate::flex::matrix::product;
use crate::flex::row::rows_per_task;
use crate::flex::vector::{Kernel, erf, exp, sigmoid, vectorized};
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, close, from_values, into_values, mode,
    open_untracked, read, record,
};
use crate::linear::{Layout, LinearState, Sizes, repeated_product};
use crate::{Dropped, Factors, Packed};

/// [`super::activated_linear`] on flex.
pub(super) fn activated_linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    dropped: Option<Dropped>,
    factors: Factors,
    packed: &Packed,
) -> Option<Tensor<2>> {
    match mode(input)? {
        Mode::Training => Some(train(input, weight, bias, activation, dropped, factors)),
        Mode::Inference if dropped.is_none() => {
            Some(infer(input, weight, bias, activation, factors, packed))
        }
        Mode::Inference => None,
    }
}

/// With autodiff: records the backward pass.
fn train(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    dropped: Option<Dropped>,
    factors: Factors,
) -> Tensor<2> {
    let sizes = Sizes::new(input, weight, Layout::InOut);
    let (input, input_node) = read(input.clone());
    let (weight, weight_node) = read(weight.clone());
    let (bias, bias_node) = read(bias.clone());
    let mut output = product(sizes.input(&input), sizes.weight(&weight), factors);
    // ReLU keeps its output instead.
    let mut pre_activations = vec![
        0.0;
        if activation == Activation::Relu {
            0
        } else {
            output.len()
        }
    ];
    activate(
        &mut output,
        &mut pre_activations,
        bias.slice(),
        activation,
        dropped,
    );
    let output = from_values(output, [sizes.rows, sizes.d_out]);
    let kept = match activation {
        // The next operation keeps the output anyway, so this takes no memory.
        Activation::Relu => Kept::Output(Contiguous::new(output.clone())),
        // These have no inverse: their derivative does not follow from their output.
        Activation::Gelu | Activation::Swish => Kept::Input(pre_activations, activation),
    };
    let state = State {
        linear: LinearState {
            sizes,
            input,
            weight,
            factors,
        },
        kept,
        dropped,
    };
    record(state, [input_node, weight_node, bias_node], output)
}

/// Without autodiff: keeps nothing but the packed weight.
fn infer(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    factors: Factors,
    packed: &Packed,
) -> Tensor<2> {
    let sizes = Sizes::new(input, weight, Layout::InOut);
    let [input, weight] =
        [input, weight].map(|tensor| Contiguous::new(open_untracked(tensor.clone())));
    let bias = Contiguous::new(open_untracked(bias.clone()));
    let mut output = match factors {
        // Only products in f32 have packed weights.
        Factors::F32 => repeated_product(sizes, &input, &weight, packed),
        Factors::Bf16 | Factors::F16 => {
            product(sizes.input(&input), sizes.weight(&weight), factors)
        }
    };
    activate(&mut output, &mut [], bias.slice(), activation, None);
    close(from_values(output, [sizes.rows, sizes.d_out]))
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
struct State {
    linear: LinearState,
    kept: Kept,
    /// For the backward pass to compute the mask again.
    dropped: Option<Dropped>,
}

/// The data that the forward pass keeps for the derivative of the activation.
#[derive(Clone, Debug)]
enum Kept {
    /// The output of ReLU: positive exactly if the sum was positive and the element was kept, so it
    /// is the dropout mask as well.
    Output(Contiguous),
    /// The input of GELU or Swish, `x W + b`.
    Input(Vec<f32>, Activation),
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, tracked: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self {
            linear,
            kept,
            dropped,
        } = self;
        let d_out = linear.sizes.d_out;
        let mut grads = into_values(gradient);
        // The blocks of the forward pass, since each has its own part of the mask.
        let block = (rows_per_task(d_out) * d_out).max(1);
        let blocks = grads.par_chunks_mut(block);
        match &kept {
            Kept::Output(output) => {
                // Which elements were dropped shows in the output; what is left is the factor.
                let scale = dropped.map_or(1.0, |dropped| (1.0 / dropped.keep) as f32);
                let blocks = blocks.zip(output.slice().par_chunks(block));
                blocks.for_each(|(grads, output)| {
                    vectorized(ReluBackward {
                        grads,
                        output,
                        scale,
                    });
                });
            }
            Kept::Input(pre_activations, activation) => {
                let mask = dropped.map(Mask::new);
                blocks
                    .zip(pre_activations.par_chunks(block))
                    .enumerate()
                    .for_each(|(part, (grads, pre_activations))| {
                        let mask = mask.map(|mask| mask.part(part));
                        vectorized(SmoothBackward {
                            grads,
                            pre_activations,
                            activation: *activation,
                            mask,
                        });
                    });
            }
        }
        linear.gradients_with_bias(
            &Contiguous::new(from_values(grads, [linear.sizes.rows, d_out])),
            tracked,
        )
    }
}

/// Turns products into outputs in place, and fills `pre_activations`, unless it is empty, with
/// `x W + b`.
fn activate(
    values: &mut [f32],
    pre_activations: &mut [f32],
    bias: &[f32],
    activation: Activation,
    dropped: Option<Dropped>,
) {
    // By the width alone, so that parts of the mask are the same with any number of threads.
    let block = (rows_per_task(bias.len()) * bias.len()).max(1);
    let mask = dropped.map(Mask::new);
    let forward = |part: usize, values: &mut [f32], pre_activations: &mut [f32]| {
        vectorized(Forward {
            values,
            pre_activations,
            bias,
            activation,
            mask: mask.map(|mask| mask.part(part)),
        });
    };
    if values.len() <= block {
        // Waking another thread would take longer.
        forward(0, values, pre_activations);
    } else if pre_activations.is_empty() {
        values
            .par_chunks_mut(block)
            .enumerate()
            .for_each(|(part, values)| forward(part, values, &mut []));
    } else {
        values
            .par_chunks_mut(block)
            .zip(pre_activations.par_chunks_mut(block))
            .enumerate()
            .for_each(|(part, (values, pre_activations))| forward(part, values, pre_activations));
    }
}

/// Applies bias, activation and dropout to a block of rows.
struct Forward<'a> {
    /// The products `x W`, which become the outputs.
    values: &'a mut [f32],
    /// Overwritten by `x W + b`; empty for ReLU and without autodiff.
    pre_activations: &'a mut [f32],
    bias: &'a [f32],
    activation: Activation,
    mask: Option<Mask>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            values,
            pre_activations,
            bias,
            activation,
            mask,
        } = self;
        for row in values.chunks_exact_mut(bias.len()) {
            match activation {
                Activation::Relu => {
                    for (value, bias) in row.iter_mut().zip(bias) {
                        let sum = *value + bias;
                        // Written so that NaN propagates; `f32::max` would turn it into 0.
                        *value = if sum < 0.0 { 0.0 } else { sum };
                    }
                }
                Activation::Gelu | Activation::Swish => {
                    for (value, bias) in row.iter_mut().zip(bias) {
                        *value += bias;
                    }
                }
            }
        }
        if activation != Activation::Relu {
            // Copied while the block is in the cache, before the next loop overwrites it.
            if !pre_activations.is_empty() {
                pre_activations.copy_from_slice(values);
            }
            // A loop over all rows at once, so that short rows do not leave vectors half empty.
            match activation {
                Activation::Swish => {
                    for value in values.iter_mut() {
                        *value *= sigmoid(*value);
                    }
                }
                Activation::Gelu | Activation::Relu => {
                    for value in values.iter_mut() {
                        *value *= cumulative(*value);
                    }
                }
            }
        }
        if let Some(mask) = mask {
            for (value, index) in values.iter_mut().zip(0u32..) {
                *value *= mask.at(index);
            }
        }
    }
}

/// The cumulative normal distribution `Φ(x)`.
#[inline(always)]
fn cumulative(x: f32) -> f32 {
    0.5 + 0.5 * erf(x * std::f32::consts::FRAC_1_SQRT_2)
}

/// Multiplies gradients by the mask and the derivative of ReLU.
struct ReluBackward<'a> {
    /// The gradients of the outputs, which become those of `x W + b`.
    grads: &'a mut [f32],
    /// Above 0 where the gradient passes.
    output: &'a [f32],
    /// `1 / keep`, or 1 without dropout.
    scale: f32,
}

impl Kernel for ReluBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (grad, output) in self.grads.iter_mut().zip(self.output) {
            *grad = if *output > 0.0 {
                *grad * self.scale
            } else {
                0.0
            };
        }
    }
}

/// Multiplies gradients by the derivative of GELU or Swish and the mask.
struct SmoothBackward<'a> {
    /// The gradients of the outputs, which become those of `x W + b`.
    grads: &'a mut [f32],
    pre_activations: &'a [f32],
    activation: Activation,
    mask: Option<Mask>,
}

impl Kernel for SmoothBackward<'_> {
    type Output = ();

    /// The derivative of GELU is `Φ(x) + x φ(x)`, with the density `φ(x) = e^(-x²/2) / sqrt(2π)`;
    /// that of Swish is `σ(x) (1 + x (1 - σ(x)))`.
    #[inline(always)]
    fn run(self) {
        /// `1 / sqrt(2π)`.
        const DENSITY: f32 = 0.398_942_3;
        let both = self.grads.iter_mut().zip(self.pre_activations);
        match self.activation {
            Activation::Swish => {
                for (grad, x) in both {
                    let sigma = sigmoid(*x);
                    *grad *= sigma * (1.0 + x * (1.0 - sigma));
                }
            }
            Activation::Gelu | Activation::Relu => {
                for (grad, x) in both {
                    *grad *= cumulative(*x) + x * DENSITY * exp(-0.5 * x * x);
                }
            }
        }
        // The mask is recomputed from its key: it costs less than reading a stored one.
        if let Some(mask) = self.mask {
            for (grad, index) in self.grads.iter_mut().zip(0u32..) {
                *grad *= mask.at(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, activation};

    use super::super::{activated_linear, gated};
    use super::*;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, random, random_tracked, with_autodiff,
    };
    use crate::linear;

    /// The activation in terms of Burn's operations.
    fn plain(input: Tensor<2>, activation: Activation) -> Tensor<2> {
        match activation {
            Activation::Relu => activation::relu(input),
            Activation::Gelu => {
                let cumulative = (input.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0;
                input * cumulative * 0.5
            }
            Activation::Swish => activation::silu(input),
        }
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        for (rows, d_in, d_out) in [(1, 2, 3), (5, 17, 9), (70, 8, 700)] {
            let input = random_tracked([rows, d_in], 2.0);
            let weight = random_tracked([d_in, d_out], 2.0);
            let bias = random_tracked([d_out], 2.0);
            let upstream = with_autodiff(&random([rows, d_out], 2.0));
            let packed = Packed::default();
            // With factors in bf16 ReLU alone is compared: its gradients are the same to the last
            // bit, so that both are rounded to the same side.
            for (activation, factors) in [
                (Activation::Relu, Factors::F32),
                (Activation::Gelu, Factors::F32),
                (Activation::Swish, Factors::F32),
                (Activation::Relu, Factors::Bf16),
            ] {
                let kernel =
                    activated_linear(&input, &weight, &bias, activation, None, factors, &packed)
                        .expect("the kernel is there");
                let sums = linear(input.clone(), weight.clone(), Some(bias.clone()), factors);
                let [kernel, plain] = [kernel, plain(sums, activation)].map(|output| {
                    let gradients = (output.clone() * upstream.clone()).sum().backward();
                    [
                        elements(output),
                        gradient_of(&input, &gradients),
                        gradient_of(&weight, &gradients),
                        gradient_of(&bias, &gradients),
                    ]
                });
                for (kernel, plain) in kernel.iter().zip(&plain) {
                    assert_near(kernel, plain, 1e-5);
                }
                let [input, weight] = [&input, &weight].map(|tensor| tensor.clone().inner());
                let applied = activated_linear(
                    &input,
                    &weight,
                    &bias.clone().inner(),
                    activation,
                    None,
                    factors,
                    &packed,
                );
                assert_near(
                    &elements(applied.expect("the kernel is there")),
                    &kernel[0],
                    1e-6,
                );
            }
        }
    }

    #[test]
    fn a_gate_gives_what_the_plain_version_gives() {
        for shape in [[1, 3], [210, 100]] {
            let gate = random_tracked(shape, 40.0);
            let inner = random_tracked(shape, 2.0);
            let upstream = with_autodiff(&random(shape, 2.0));
            let kernel = gated(&gate, &inner, None).expect("the kernel is there");
            let plain = activation::silu(gate.clone()) * inner.clone();
            let [kernel, plain] = [kernel, plain].map(|output| {
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                [
                    elements(output),
                    gradient_of(&gate, &gradients),
                    gradient_of(&inner, &gradients),
                ]
            });
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert_near(kernel, plain, 1e-5);
            }
        }
    }

    /// The mask is read from the output of ones, and must be the same in both passes.
    #[test]
    fn the_backward_pass_drops_what_the_forward_pass_drops() {
        let dropped = Some(Dropped { keep: 0.8, key: 4 });
        let rows = 40;
        let width = 900;
        let device = Device::flex().autodiff();
        let ones = Tensor::<2>::ones([rows, 1], &device);
        for activation in [Activation::Relu, Activation::Gelu, Activation::Swish] {
            let bias = Tensor::<1>::ones([width], &device).require_grad();
            let weight = Tensor::<2>::zeros([1, width], &device).require_grad();
            let run = |dropped| {
                let output = activated_linear(
                    &ones,
                    &weight,
                    &bias,
                    activation,
                    dropped,
                    Factors::F32,
                    &Packed::default(),
                )
                .expect("the kernel is there");
                let gradients = output.clone().sum().backward();
                (elements(output), gradient_of(&bias, &gradients))
            };
            let (kept, grads) = run(dropped);
            let (whole, whole_grads) = run(None);
            let share =
                kept.iter().filter(|value| **value > 0.0).count() as f64 / kept.len() as f64;
            assert!((share - 0.8).abs() < 0.01, "{share}");
            for (column, (grad, whole_grad)) in grads.iter().zip(&whole_grads).enumerate() {
                let kept: f32 = kept.iter().skip(column).step_by(width).sum();
                let whole: f32 = whole.iter().skip(column).step_by(width).sum();
                assert!(
                    (grad / whole_grad - kept / whole).abs() < 1e-4,
                    "{column}: {grad}, {kept}"
                );
            }
        }
        let gate = Tensor::<2>::ones([rows, width], &device).require_grad();
        let inner = Tensor::<2>::ones([rows, width], &device).require_grad();
        let output = gated(&gate, &inner, dropped).expect("the kernel is there");
        let gradients = output.clone().sum().backward();
        // silu(1) and its derivative.
        let value = 0.731_058_6;
        let derivative = 0.927_670_5;
        let grads = gradient_of(&gate, &gradients);
        let grads = grads.iter().zip(gradient_of(&inner, &gradients));
        for (output, (grad_gate, grad_inner)) in elements(output).iter().zip(grads) {
            let mask = if *output > 0.0 { 1.25 } else { 0.0 };
            assert!(
                (output - value * mask).abs() < 1e-6 && (grad_inner - value * mask).abs() < 1e-6
            );
            assert!((grad_gate - derivative * mask).abs() < 1e-6);
        }
    }
}
