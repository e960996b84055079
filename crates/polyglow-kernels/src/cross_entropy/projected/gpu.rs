//! Cross-entropy from hidden states on GPUs: products by Burn, and a kernel for the loss of the
//! logits.
//!
//! The chunks are those of [`super::Chunks`]. Most rows of padding are left out first, by selecting
//! the others. The forward pass computes the gradients together with the loss, and the backward
//! pass multiplies them by the gradient of the loss.

mod kernel;

use burn::backend::Cube;
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::CubeDim;
use burn_cubecl::tensor::CubeTensor;

use self::kernel::{SmoothingLaunch, THREADS};
use super::{Chunks, LogitGradients, Sums};
use crate::cross_entropy::targets::Counted;
use crate::gpu::operation::{Operand, elements, queue, vector_size, workgroups};
use crate::gpu::{BackwardPass, Gradient, open, record};
use crate::{Factors, Layout, LossOutput, Targets};

/// [`super::projected_cross_entropy`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn loss(
    hidden: &Tensor<2>,
    weight: &Tensor<2>,
    layout: Layout,
    targets: &Targets,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> Option<LossOutput> {
    let (hidden, hidden_node) = open(hidden)?;
    let (weight, weight_node) = open(weight)?;
    let [_, d_model] = hidden.dims();
    let counted = targets.counted.as_ref();
    let (counted_hidden, targets) = match counted {
        Some(Counted { rows, targets, .. }) => (hidden.select(0, rows.clone().inner()), targets),
        None => (hidden, &targets.all),
    };
    // From here on there are as many rows as count, plus some of padding.
    let chunks = Chunks::new(weight, layout, label_smoothing, pad_id, factors);
    let sums = chunks.sums(&counted_hidden, &targets.clone().inner().unsqueeze_dim(1));
    let [loss_sum, nll_sum] = sums.totals();
    let Sums {
        mut grad_hidden,
        grad_weight,
        ..
    } = sums;
    // The gradients of rows that were left out are one more row, which is 0.
    grad_hidden.extend(counted.map(|_| Tensor::zeros([1, d_model], &grad_weight.device())));
    let grad_hidden = Tensor::cat(grad_hidden, 0);
    let grad_hidden = match counted {
        Some(Counted { positions, .. }) => grad_hidden.select(0, positions.clone().inner()),
        None => grad_hidden,
    };
    let loss_sum = record(
        State {
            grad_hidden,
            grad_weight,
        },
        [hidden_node, weight_node],
        loss_sum,
    );
    Some(LossOutput {
        loss_sum,
        nll_sum: Tensor::from_inner(nll_sum),
    })
}

/// The gradients of the hidden states and of the weight, which the forward pass has computed.
#[derive(Clone, Debug)]
struct State {
    /// `[rows, d_model]`, with zeros in rows that were left out.
    grad_hidden: Tensor<2>,
    /// In the layout of the weight.
    grad_weight: Tensor<2>,
}

impl BackwardPass<2, 1> for State {
    fn gradients(self, gradient: Tensor<1>, tracked: [bool; 2]) -> [Option<Gradient>; 2] {
        let [tracks_hidden, tracks_weight] = tracked;
        let scaled = |grad: Tensor<2>| scaled(grad, gradient.clone()).into();
        [
            tracks_hidden.then(|| scaled(self.grad_hidden)),
            tracks_weight.then(|| scaled(self.grad_weight)),
        ]
    }
}

/// Returns a tensor times a factor on the device, `[1]`. Burn's product of the two reads the factor
/// for each element, and takes 50 times as long on an H200 as reading and writing the tensor does.
fn scaled(tensor: Tensor<2>, factor: Tensor<1>) -> Tensor<2> {
    let shape = tensor.dims();
    let size: usize = shape.iter().product();
    let vector = vector_size(size);
    let vectors = size / vector;
    let launch = move |client: &Client, inputs: [CubeTensor; 2], [output]: [CubeTensor; 1]| {
        let dim = CubeDim::new(client, vectors);
        let count = calculate_cube_count_elemwise(client, vectors, dim);
        let [tensor, factor] = inputs.map(CubeTensor::into_buffer_arg);
        let output = output.into_buffer_arg();
        kernel::scale::launch(
            client,
            count,
            dim,
            vector,
            tensor,
            factor,
            output,
            vectors as u32,
        );
    };
    let inputs = [Operand::from(tensor), factor.into()];
    let [output] = queue("scaled", inputs, [(shape.to_vec(), DType::F32)], launch);
    output.tensor()
}

/// [`Chunks::logit_gradients`] by the kernel `kernel::losses`, on GPUs; `None` elsewhere.
pub(super) fn logit_gradients(
    logits: &Tensor<2>,
    targets: &Tensor<2, Int>,
    label_smoothing: f64,
    pad_id: u32,
) -> Option<LogitGradients> {
    if cfg!(feature = "plain") {
        return None;
    }
    // `None` for a tensor on another backend.
    logits.clone().try_into_primitive::<Cube>().ok()?;
    let [rows, vocab_size] = logits.dims();
    let dtype = logits.dtype();
    let vector = vector_size(vocab_size);
    let launch =
        move |client: &Client, inputs: [CubeTensor; 2], [grads, losses]: [CubeTensor; 2]| {
            let types = inputs.each_ref().map(elements);
            let [logits, targets] = inputs.map(CubeTensor::into_buffer_arg);
            let count = workgroups(rows);
            let dim = CubeDim::new_1d(THREADS as u32);
            let smoothing =
                SmoothingLaunch::new((vocab_size / vector) as u32, pad_id, label_smoothing as f32);
            let grads = grads.into_buffer_arg();
            let losses = losses.into_buffer_arg();
            kernel::losses::launch(
                client,
                count,
                dim,
                vector,
                logits,
                targets,
                grads,
                losses,
                rows as u32,
                smoothing,
                types,
            );
        };
    let written = [(vec![rows, vocab_size], dtype), (vec![2, rows], DType::F32)];
    let inputs = [Operand::from(logits.clone()), targets.clone().into()];
    let [grads, losses] = queue("losses", inputs, written, launch);
    Some(LogitGradients {
        grads: grads.tensor(),
        losses: losses.tensor(),
    })
}
