//! A linear map with ReLU and dropout on GPUs. Of the intermediate values only the output is kept:
//! it is above 0 exactly where the gradient passes, through the ReLU and through dropout.

use burn::tensor::Tensor;

use super::Activation;
use crate::dropout::gpu::without_graph;
use crate::factors::{Factors, widened};
use crate::gpu::{BackwardPass, Gradient, open, record};
use crate::linear::{GpuFactors, through_relu};
use crate::{Dropped, Layout};

/// [`super::activated_linear`] on GPUs with autodiff, for [`Activation::Relu`]; `None` elsewhere.
pub(super) fn activated_linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    dropped: Option<Dropped>,
    factors: Factors,
) -> Option<Tensor<2>> {
    if activation != Activation::Relu {
        return None;
    }
    let (input, input_node) = open(input)?;
    let (weight, weight_node) = open(weight)?;
    let (bias, bias_node) = open(bias)?;
    let bias: Tensor<2> = bias.unsqueeze();
    let map = GpuFactors::new(input, weight, Layout::InOut, factors);
    let sum = widened(map.product()) + bias;
    // `max(x, 0)` as `(|x| + x) / 2`, which propagates NaN.
    let mut output = factors.rounded((sum.clone().abs() + sum) * 0.5);
    if let Some(dropped) = dropped {
        output = without_graph(output, dropped);
    }
    let scale = dropped.map_or(1.0, |dropped| 1.0 / dropped.keep);
    let state = State {
        map,
        output: output.clone(),
        scale,
    };
    Some(record(state, [input_node, weight_node, bias_node], output))
}

/// The data that the backward pass reads.
#[derive(Clone, Debug)]
struct State {
    map: GpuFactors,
    /// Above 0 where `x W + b` is and the element was kept.
    output: Tensor<2>,
    /// `1 / keep`, or 1 without dropout.
    scale: f64,
}

impl BackwardPass<3, 2> for State {
    fn gradients(
        self,
        gradient: Tensor<2>,
        [tracks_input, tracks_weight, _]: [bool; 3],
    ) -> [Option<Gradient>; 3] {
        let (grad_sum, grad_bias) = through_relu(gradient, self.output, self.scale);
        let [grad_input, grad_weight] = self.map.gradients(grad_sum, [tracks_input, tracks_weight]);
        [grad_input, grad_weight, Some(grad_bias)]
    }
}
