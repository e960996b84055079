//! The affine map `y = x W + b` on GPUs: products ([`product`]) with factors that are rounded once,
//! and a kernel for the gradient of the bias.
//!
//! Rounded copies of `x` and `W` serve the forward pass and both products of the backward pass
//! ([`GpuFactors`]).

mod kernel;
mod product;

use burn::tensor::{DType, FloatDType, Tensor};
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;

use self::kernel::{LANES, ROWS};
#[cfg(feature = "cublaslt")]
pub use self::product::ProductObservation;
pub(crate) use self::product::{product, product_of_columns};
use super::Layout;
use crate::factors::{Factors, cast, kept_or_rounded, rounded, widened};
use crate::gpu::operation::{Operand, elements, placeholder, queue, vector_size};
use crate::gpu::rows::sum_of_rows;
use crate::gpu::{BackwardPass, Gradient, open, record};

/// [`super::linear`], or with [`Layout::OutIn`] [`super::linear_transposed`], on GPUs with
/// autodiff; `None` elsewhere.
pub(super) fn linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    layout: Layout,
    factors: Factors,
) -> Option<Tensor<2>> {
    let (input, input_node) = open(input)?;
    let (weight, weight_node) = open(weight)?;
    let bias = match bias {
        Some(bias) => {
            let (bias, node) = open(bias)?;
            Some((bias.unsqueeze::<2>(), node))
        }
        None => None,
    };
    let state = GpuFactors::new(input, weight, layout, factors);
    let product = state.product();
    Some(match bias {
        Some((bias, bias_node)) => {
            let output = factors.rounded(widened(product) + bias);
            record(state, [input_node, weight_node, bias_node], output)
        }
        None => record(state, [input_node, weight_node], product),
    })
}

/// The two factors of the product, as they were rounded; also the backward pass of the product.
#[derive(Clone, Debug)]
pub(crate) struct GpuFactors {
    /// `x`, `[rows, d_in]`.
    input: Tensor<2>,
    /// `W`, in the order of the layout.
    weight: Tensor<2>,
    /// The format of the input before it was rounded, which its gradient has.
    dtype: FloatDType,
    layout: Layout,
    factors: Factors,
}

impl GpuFactors {
    /// Rounds the factors, which are outside of the graph.
    pub(crate) fn new(
        input: Tensor<2>,
        weight: Tensor<2>,
        layout: Layout,
        factors: Factors,
    ) -> Self {
        let dtype = input.dtype().into();
        Self {
            input: kept_or_rounded(factors, input),
            weight: rounded(factors, weight),
            dtype,
            layout,
            factors,
        }
    }

    /// Returns `x W` in the format of the factors.
    pub(crate) fn product(&self) -> Tensor<2> {
        product(self.input.clone(), self.across(), self.factors.dtype())
    }

    /// The weight as `[d_in, d_out]`.
    fn across(&self) -> Tensor<2> {
        match self.layout {
            Layout::InOut => self.weight.clone(),
            Layout::OutIn => self.weight.clone().transpose(),
        }
    }

    /// The gradient of the weight, from that of the output in the format of the factors.
    fn grad_weight(&self, gradient: Tensor<2>) -> Gradient {
        let input = self.input.clone();
        let (left, right) = match self.layout {
            Layout::InOut => (input, gradient),
            Layout::OutIn => (gradient, input),
        };
        product_of_columns(left, right).into()
    }

    /// The gradient of the input, from that of the output in the format of the factors.
    fn grad_input(&self, gradient: Tensor<2>) -> Gradient {
        product(gradient, self.across().transpose(), self.dtype).into()
    }
}

/// The most workgroups that share a column of sums: more would leave more partial sums to add up.
const MAX_STRIPES: usize = 64;

/// The gradient of the bias: the sum of the rows of that of the output, in f32.
fn grad_bias(gradient: Tensor<2>) -> Gradient {
    let [sums] = sum_columns(gradient, None);
    sums_of_stripes(sums)
}

/// Returns the gradient before a ReLU, given that behind it, and the sum of its rows in f32.
/// `output` is the output of the ReLU, and `scale` a factor that was applied behind it.
pub(crate) fn through_relu(
    gradient: Tensor<2>,
    output: Tensor<2>,
    scale: f64,
) -> (Tensor<2>, Gradient) {
    let gradient = cast(gradient, output.dtype().into());
    let [sums, grad] = sum_columns(gradient, Some((output, scale as f32)));
    (grad.tensor(), sums_of_stripes(sums))
}

/// The sum of the partial sums of all workgroups, `[stripes, width]`.
fn sums_of_stripes(sums: Operand) -> Gradient {
    let stripes = sums.len(0);
    sum_of_rows(sums, stripes).tensor::<1>().into()
}

/// Launches `kernel::sum_columns`: partial sums, `[stripes, width]`, and with a ReLU the gradient
/// before it.
fn sum_columns<const O: usize>(
    gradient: Tensor<2>,
    relu: Option<(Tensor<2>, f32)>,
) -> [Operand; O] {
    let [rows, width] = gradient.dims();
    let dtype = gradient.dtype();
    let vector = vector_size(width);
    let stripes = rows.div_ceil(ROWS).clamp(1, MAX_STRIPES);
    let columns = (width / vector).div_ceil(LANES);
    let layout = kernel::Layout {
        width: width / vector,
        has_relu: relu.is_some(),
    };
    let gradient = Operand::from(gradient);
    // Without a ReLU nothing is read through this binding.
    let (active, scale) = relu.map_or_else(
        || (gradient.clone(), 1.0),
        |(output, scale)| (output.into(), scale),
    );
    let launch = move |client: &Client, inputs: [CubeTensor; 2], written: [CubeTensor; O]| {
        let kind = elements(&inputs[0]);
        let grads = written
            .get(1)
            .cloned()
            .unwrap_or_else(|| placeholder(client, &inputs[0]));
        let [gradient, active] = inputs.map(CubeTensor::into_buffer_arg);
        let [grads, sums] = [grads, written[0].clone()].map(CubeTensor::into_buffer_arg);
        let count = CubeCount::Static(columns as u32, stripes as u32, 1);
        let dim = CubeDim::new_1d((LANES * ROWS) as u32);
        kernel::sum_columns::launch(
            client,
            count,
            dim,
            vector,
            gradient,
            active,
            grads,
            sums,
            rows as u32,
            scale,
            layout,
            kind,
        );
    };
    let mut shapes = [vec![stripes, width], vec![rows, width]]
        .into_iter()
        .zip([DType::F32, dtype]);
    let written = std::array::from_fn(|_| shapes.next().expect("at most two are written"));
    queue("columns", [gradient, active], written, launch)
}

impl BackwardPass<2, 2> for GpuFactors {
    fn gradients(
        self,
        gradient: Tensor<2>,
        [tracks_input, tracks_weight]: [bool; 2],
    ) -> [Option<Gradient>; 2] {
        let gradient = self.factors.rounded(gradient);
        let grad_weight = tracks_weight.then(|| self.grad_weight(gradient.clone()));
        let grad_input = tracks_input.then(|| self.grad_input(gradient));
        [grad_input, grad_weight]
    }
}

impl BackwardPass<3, 2> for GpuFactors {
    fn gradients(
        self,
        gradient: Tensor<2>,
        [tracks_input, tracks_weight, tracks_bias]: [bool; 3],
    ) -> [Option<Gradient>; 3] {
        let rounded = self.factors.rounded(gradient.clone());
        let grad_weight = tracks_weight.then(|| self.grad_weight(rounded.clone()));
        let grad_bias = tracks_bias.then(|| grad_bias(gradient));
        let grad_input = tracks_input.then(|| self.grad_input(rounded));
        [grad_input, grad_weight, grad_bias]
    }
}
