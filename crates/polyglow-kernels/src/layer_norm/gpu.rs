//! On GPUs: a kernel each way, with the residual sum before it and its dropout.

mod kernel;

use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::CubeDim;
use burn_cubecl::tensor::CubeTensor;

use self::kernel::{LANES, Layout, ROWS};
use crate::Dropped;
use crate::dropout::gpu::draw::Draw;
use crate::gpu::operation::{Operand, elements, queue, shared_memory, vector_size, workgroups};
use crate::gpu::{BackwardPass, Gradient, Node, open, record};

/// Cubes of the backward pass, each with sums for `gamma` and `beta` of its own.
const MAX_WORKGROUPS: usize = 512;
/// The widest row: units keep what they have of it.
const WIDEST: usize = 3072;

/// [`super::layer_norm`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn layer_norm(
    input: &Tensor<2>,
    gamma: &Tensor<1>,
    beta: &Tensor<1>,
    epsilon: f64,
) -> Option<Tensor<2>> {
    let (input, node) = open(input)?;
    let affine = (open(gamma)?, open(beta)?);
    let ((gamma, gamma_node), (beta, beta_node)) = affine;
    let (output, state) = State::normalize(None, input, gamma, beta, epsilon, None)?;
    Some(record(OfRows(state), [node, gamma_node, beta_node], output))
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
    let ((gamma, gamma_node), (beta, beta_node)): ((Tensor<1>, Node), (Tensor<1>, Node)) =
        (open(gamma)?, open(beta)?);
    let (output, state) = State::normalize(Some(residual), input, gamma, beta, epsilon, dropped)?;
    Some(record(
        OfSums(state),
        [residual_node, node, gamma_node, beta_node],
        output,
    ))
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct State {
    shape: [usize; 2],
    /// Of the input.
    dtype: DType,
    layout: Layout,
    vector: usize,
    dropped: Option<Dropped>,
    standard: Operand,
    scales: Operand,
    gamma: Operand,
}

impl State {
    fn normalize(
        residual: Option<Tensor<2>>,
        input: Tensor<2>,
        gamma: Tensor<1>,
        beta: Tensor<1>,
        epsilon: f64,
        dropped: Option<Dropped>,
    ) -> Option<(Tensor<2>, Self)> {
        let shape @ [rows, width] = input.dims();
        let others = residual
            .iter()
            .map(Tensor::dtype)
            .chain([gamma.dtype(), beta.dtype()]);
        if others.into_iter().any(|dtype| dtype != DType::F32) {
            return None;
        }
        let input: Operand = input.into();
        // Cubes of the backward pass share two numbers for each of the row, and two for each unit.
        let shared = 4 * 2 * (width + LANES * ROWS);
        if width > WIDEST || rows == 0 || shared > shared_memory(&input) {
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
        // Where there is none, nothing is read of it.
        let residual = residual.map_or_else(|| Operand::from(gamma.clone()), Operand::from);
        let gamma: Operand = gamma.into();
        let launch = move |client: &Client, inputs: [CubeTensor; 4], written: [CubeTensor; 3]| {
            let kind = elements(&inputs[1]);
            let [residual, input, gamma, beta] = inputs.map(CubeTensor::into_buffer_arg);
            let [output, standard, scales] = written.map(CubeTensor::into_buffer_arg);
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
                standard,
                scales,
                rows as u32,
                epsilon as f32,
                Draw::launch(dropped),
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
        let [output, standard, scales] = queue("norm", inputs, written, launch);
        Some((
            output.tensor(),
            Self {
                shape,
                dtype,
                layout,
                vector,
                dropped,
                standard,
                scales,
                gamma,
            },
        ))
    }

    /// Those of what was normalized, of the input, `gamma` and `beta`.
    fn gradients(self, gradient: Tensor<2>) -> (Tensor<2>, Tensor<2>, [Tensor<1>; 2]) {
        let Self {
            shape,
            dtype,
            layout,
            vector,
            dropped,
            standard,
            scales,
            gamma,
        } = self;
        let [rows, width] = shape;
        let num_workgroups = rows.div_ceil(ROWS).min(MAX_WORKGROUPS);
        // Else it is that of the sum.
        let writes_input = dropped.is_some() || dtype != DType::F32;
        let launch = move |client: &Client, inputs: [CubeTensor; 4], written: [CubeTensor; 3]| {
            let kind = elements(&written[1]);
            let [grad, standard, scales, gamma] = inputs.map(CubeTensor::into_buffer_arg);
            let [grad_sum, grad_input, grad_affine] = written.map(CubeTensor::into_buffer_arg);
            kernel::backward::launch(
                client,
                workgroups(num_workgroups),
                CubeDim::new_1d((LANES * ROWS) as u32),
                vector,
                grad,
                standard,
                scales,
                gamma,
                grad_sum,
                grad_input,
                grad_affine,
                rows as u32,
                Draw::launch(dropped),
                layout,
                writes_input,
                kind,
            );
        };
        let grad_input = (
            if writes_input {
                shape.to_vec()
            } else {
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
            "norm's slopes",
            [gradient.into(), standard, scales, gamma],
            written,
            launch,
        );
        let grad_sum = grad_sum.tensor::<2>();
        let grad_input = if writes_input {
            grad_input.tensor()
        } else {
            grad_sum.clone()
        };
        let grad_affine = grad_affine.tensor::<2>().sum_dim(0).squeeze_dim::<1>(0);
        let grad_affine = [0, 1].map(|part| grad_affine.clone().narrow(0, part * width, width));
        (grad_sum, grad_input, grad_affine)
    }
}

#[derive(Clone, Debug)]
struct OfRows(State);

impl BackwardPass<3, 2> for OfRows {
    fn gradients(self, gradient: Tensor<2>, _: [bool; 3]) -> [Option<Gradient>; 3] {
        let (_, grad_input, [grad_gamma, grad_beta]) = self.0.gradients(gradient);
        [
            Some(grad_input.into()),
            Some(grad_gamma.into()),
            Some(grad_beta.into()),
        ]
    }
}

#[derive(Clone, Debug)]
struct OfSums(State);

impl BackwardPass<4, 2> for OfSums {
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
