//! Layer normalization on GPUs: one kernel forward and one backward (`kernel.rs`), each with the
//! residual sum in front of the normalization and its dropout.

mod kernel;

use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::CubeDim;
use burn_cubecl::tensor::CubeTensor;

use self::kernel::{LANES, Layout, ROWS};
use crate::Dropped;
use crate::dropout::gpu::mask::DropoutMask;
use crate::gpu::operation::{Operand, elements, queue, shared_memory, vector_size, workgroups};
use crate::gpu::rows::sum_of_rows;
use crate::gpu::{BackwardPass, Gradient, open, record};

/// The most workgroups of the backward pass, each of which has sums for `gamma` and `beta` of its
/// own: more of them would leave more sums to add up.
const MAX_WORKGROUPS: usize = 512;
/// The widest row: threads keep their part of it in registers, here 96 elements.
const MAX_WIDTH: usize = 3072;

/// [`super::layer_norm`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn layer_norm(
    input: &Tensor<2>,
    gamma: &Tensor<1>,
    beta: &Tensor<1>,
    epsilon: f64,
) -> Option<Tensor<2>> {
    let (input, node) = open(input)?;
    let (gamma, gamma_node) = open(gamma)?;
    let (beta, beta_node) = open(beta)?;
    let (output, state) = State::normalize(None, input, gamma, beta, epsilon, None)?;
    Some(record(
        NormBackward(state),
        [node, gamma_node, beta_node],
        output,
    ))
}

/// [`super::residual_norm`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn residual_norm(
    residual: &Tensor<2>,
    input: &Tensor<2>,
    gamma: &Tensor<1>,
    beta: &Tensor<1>,
    epsilon: f64,
    dropped: Option<Dropped>,
) -> Option<Tensor<2>> {
    let (residual, residual_node) = open(residual)?;
    let (input, node) = open(input)?;
    let (gamma, gamma_node) = open(gamma)?;
    let (beta, beta_node) = open(beta)?;
    let (output, state) = State::normalize(Some(residual), input, gamma, beta, epsilon, dropped)?;
    Some(record(
        ResidualNormBackward(state),
        [residual_node, node, gamma_node, beta_node],
        output,
    ))
}

/// Everything that the backward pass reads.
#[derive(Clone, Debug)]
struct State {
    /// `[rows, width]`.
    shape: [usize; 2],
    /// The format of the input.
    dtype: DType,
    layout: Layout,
    /// Elements in a vector.
    vector: usize,
    dropped: Option<Dropped>,
    /// `y` in the formulas.
    normalized: Operand,
    /// `scale` of each row.
    scales: Operand,
    gamma: Operand,
}

impl State {
    /// The output, and what its backward pass needs; `None` if the formats or sizes do not fit the
    /// kernels.
    fn normalize(
        residual: Option<Tensor<2>>,
        input: Tensor<2>,
        gamma: Tensor<1>,
        beta: Tensor<1>,
        epsilon: f64,
        dropped: Option<Dropped>,
    ) -> Option<(Tensor<2>, Self)> {
        let shape @ [rows, width] = input.dims();
        // The kernel takes these in f32 alone; the input may have the format of a product.
        let others = residual
            .iter()
            .map(Tensor::dtype)
            .chain([gamma.dtype(), beta.dtype()]);
        if others.into_iter().any(|dtype| dtype != DType::F32) {
            return None;
        }
        let input: Operand = input.into();
        // A workgroup of the backward pass shares two floats for each element of a row, and two for
        // each thread.
        let shared = 4 * 2 * (width + LANES * ROWS);
        if width > MAX_WIDTH || rows == 0 || shared > shared_memory(&input) {
            return None;
        }
        let vector = vector_size(width);
        let has_residual = residual.is_some();
        let has_dropout = dropped.is_some();
        let layout = Layout {
            width: width / vector,
            has_residual,
            has_dropout,
        };
        let dtype = input.dtype();
        // Without a residual nothing is read through this binding.
        let residual = residual.map_or_else(|| Operand::from(gamma.clone()), Operand::from);
        let gamma: Operand = gamma.into();
        let launch = move |client: &Client, inputs: [CubeTensor; 4], written: [CubeTensor; 3]| {
            let kind = elements(&inputs[1]);
            let [residual, input, gamma, beta] = inputs.map(CubeTensor::into_buffer_arg);
            let [output, normalized, scales] = written.map(CubeTensor::into_buffer_arg);
            kernel::forward::launch(
                client,
                workgroups(rows.div_ceil(ROWS)),
                CubeDim::new_1d((LANES * ROWS) as u32),
                vector,
                residual,
                input,
                gamma,
                beta,
                output,
                normalized,
                scales,
                rows as u32,
                epsilon as f32,
                DropoutMask::kernel_arg(dropped),
                layout,
                kind,
            );
        };
        let inputs = [residual, input, gamma.clone(), beta.into()];
        let written = [
            (shape.to_vec(), DType::F32),
            (shape.to_vec(), DType::F32),
            (vec![rows, 1], DType::F32),
        ];
        let [output, normalized, scales] = queue("norm", inputs, written, launch);
        Some((
            output.tensor(),
            Self {
                shape,
                dtype,
                layout,
                vector,
                dropped,
                normalized,
                scales,
                gamma,
            },
        ))
    }

    /// The gradients of what was normalized (the residual sum), of the input, and of `gamma` and
    /// `beta`.
    fn gradients(self, gradient: Tensor<2>) -> (Tensor<2>, Tensor<2>, [Tensor<1>; 2]) {
        let Self {
            shape,
            dtype,
            layout,
            vector,
            dropped,
            normalized,
            scales,
            gamma,
        } = self;
        let [rows, width] = shape;
        let num_workgroups = rows.div_ceil(ROWS).min(MAX_WORKGROUPS);
        // Otherwise it is equal to the gradient of the sum, which then serves as both.
        let writes_input = dropped.is_some() || dtype != DType::F32;
        let launch = move |client: &Client, inputs: [CubeTensor; 4], written: [CubeTensor; 3]| {
            let kind = elements(&written[1]);
            let [grad_output, normalized, scales, gamma] = inputs.map(CubeTensor::into_buffer_arg);
            let [grad_sum, grad_input, grad_affine] = written.map(CubeTensor::into_buffer_arg);
            kernel::backward::launch(
                client,
                workgroups(num_workgroups),
                CubeDim::new_1d((LANES * ROWS) as u32),
                vector,
                grad_output,
                normalized,
                scales,
                gamma,
                grad_sum,
                grad_input,
                grad_affine,
                rows as u32,
                DropoutMask::kernel_arg(dropped),
                layout,
                writes_input,
                kind,
            );
        };
        let grad_input = (
            if writes_input {
                shape.to_vec()
            } else {
                // Nothing is written to it, but the kernel needs a binding.
                vec![vector]
            },
            dtype,
        );
        let written = [
            (shape.to_vec(), DType::F32),
            grad_input,
            (vec![num_workgroups, 2 * width], DType::F32),
        ];
        let [grad_sum, grad_input, grad_affine] = queue(
            "norm's gradients",
            [gradient.into(), normalized, scales, gamma],
            written,
            launch,
        );
        let grad_sum = grad_sum.tensor::<2>();
        let grad_input = if writes_input {
            grad_input.tensor()
        } else {
            grad_sum.clone()
        };
        // The sums of workgroups, added in their order.
        let parts = grad_affine.len(0);
        let grad_affine = sum_of_rows(grad_affine, parts).tensor::<1>();
        let grad_affine = [0, 1].map(|part| grad_affine.clone().narrow(0, part * width, width));
        (grad_sum, grad_input, grad_affine)
    }
}

/// The backward pass of [`layer_norm`].
#[derive(Clone, Debug)]
struct NormBackward(State);

impl BackwardPass<3, 2> for NormBackward {
    fn gradients(self, gradient: Tensor<2>, _: [bool; 3]) -> [Option<Gradient>; 3] {
        // Without a residual the sum is the input.
        let (_, grad_input, [grad_gamma, grad_beta]) = self.0.gradients(gradient);
        [
            Some(grad_input.into()),
            Some(grad_gamma.into()),
            Some(grad_beta.into()),
        ]
    }
}

/// The backward pass of [`residual_norm`].
#[derive(Clone, Debug)]
struct ResidualNormBackward(State);

impl BackwardPass<4, 2> for ResidualNormBackward {
    fn gradients(self, gradient: Tensor<2>, _: [bool; 4]) -> [Option<Gradient>; 4] {
        let (grad_residual, grad_input, [grad_gamma, grad_beta]) = self.0.gradients(gradient);
        [
            Some(grad_residual.into()),
            Some(grad_input.into()),
            Some(grad_gamma.into()),
            Some(grad_beta.into()),
        ]
    }
}
