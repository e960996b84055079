//! On GPUs: each factor is rounded once, also for the backward pass.

use burn::tensor::Tensor;

use super::Layout;
use crate::Factors;
use crate::gpu::{Slope, Slopes, open, record};

/// [`super::linear`], or with [`Layout::OutIn`] [`super::linear_transposed`], on GPUs with autodiff; `None` elsewhere.
pub(super) fn linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    layout: Layout,
    factors: Factors,
) -> Option<Tensor<2>> {
    let ((input, input_node), (weight, weight_node)) = (open(input)?, open(weight)?);
    // Its shape is changed first, so that nothing stands between the product and the sum, which are fused.
    let bias = match bias {
        Some(bias) => {
            let (bias, node) = open(bias)?;
            Some((bias.unsqueeze::<2>(), node))
        }
        None => None,
    };
    let state = GpuFactors::new(input, weight, layout, factors);
    let output = state.product();
    Some(match bias {
        Some((bias, bias_node)) => record(state, [input_node, weight_node, bias_node], output + bias),
        None => record(state, [input_node, weight_node], output),
    })
}

/// The two factors of the product, as they were rounded.
#[derive(Clone, Debug)]
pub(crate) struct GpuFactors {
    input: Tensor<2>,
    weight: Tensor<2>,
    layout: Layout,
    factors: Factors,
}

impl GpuFactors {
    /// Of tensors outside of the graph.
    pub(crate) fn new(input: Tensor<2>, weight: Tensor<2>, layout: Layout, factors: Factors) -> Self {
        Self { input: factors.rounded(input), weight: factors.rounded(weight), layout, factors }
    }

    pub(crate) fn product(&self) -> Tensor<2> {
        self.factors.widened(self.input.clone().matmul(self.across()))
    }

    /// The weight as `[d_in, d_out]`.
    fn across(&self) -> Tensor<2> {
        match self.layout {
            Layout::InOut => self.weight.clone(),
            Layout::OutIn => self.weight.clone().transpose(),
        }
    }

    /// Those of the input and the weight.
    pub(crate) fn slopes(self, gradient: Tensor<2>, [of_input, of_weight]: [bool; 2]) -> [Option<Slope>; 2] {
        let gradient = self.factors.rounded(gradient);
        let back = self.across().transpose();
        let Self { input, layout, factors, .. } = self;
        let of_input = of_input.then(|| factors.widened(gradient.clone().matmul(back)).into());
        let of_weight = of_weight.then(|| {
            let product = match layout {
                Layout::InOut => input.transpose().matmul(gradient),
                Layout::OutIn => gradient.transpose().matmul(input),
            };
            factors.widened(product).into()
        });
        [of_input, of_weight]
    }
}

impl Slopes<2, 2> for GpuFactors {
    fn slopes(self, gradient: Tensor<2>, tracked: [bool; 2]) -> [Option<Slope>; 2] {
        GpuFactors::slopes(self, gradient, tracked)
    }
}

impl Slopes<3, 2> for GpuFactors {
    fn slopes(self, gradient: Tensor<2>, [of_input, of_weight, of_bias]: [bool; 3]) -> [Option<Slope>; 3] {
        let of_bias = of_bias.then(|| gradient.clone().sum_dim(0).squeeze_dim::<1>(0).into());
        let [of_input, of_weight] = GpuFactors::slopes(self, gradient, [of_input, of_weight]);
        [of_input, of_weight, of_bias]
    }
}
