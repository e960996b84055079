//! Dropout on GPUs, with a residual sum and without. Each element of the mask is computed where it
//! is used, in both passes, by one kernel (`kernel::drop_and_add`).

mod kernel;
pub(crate) mod mask;

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::CubeDim;
use burn_cubecl::tensor::CubeTensor;

use self::mask::DropoutMask;
use super::Dropped;
use crate::gpu::operation::{Operand, elements, queue, vector_size};
use crate::gpu::{BackwardPass, Gradient, open, record};

/// [`super::add_dropped`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn add_dropped(
    residual: &Tensor<2>,
    input: &Tensor<2>,
    dropped: Dropped,
) -> Option<Tensor<2>> {
    // The output is f32, and the kernel reads a residual in the format of the output.
    if residual.dtype() != DType::F32 {
        return None;
    }
    let (residual, residual_node) = open(residual)?;
    let (input, input_node) = open(input)?;
    let state = AddDroppedBackward(dropped, input.dtype());
    let output = drop_and_add("dropout", Some(residual), input, DType::F32, Some(dropped));
    Some(record(state, [residual_node, input_node], output))
}

/// The backward pass of [`add_dropped`]: the key of the mask, and the format of the input.
#[derive(Clone, Debug)]
struct AddDroppedBackward(Dropped, DType);

impl BackwardPass<2, 2> for AddDroppedBackward {
    fn gradients(self, gradient: Tensor<2>, [_, tracks_input]: [bool; 2]) -> [Option<Gradient>; 2] {
        let Self(dropped, dtype) = self;
        let grad_input = tracks_input
            .then(|| drop_and_add("dropout", None, gradient.clone(), dtype, Some(dropped)).into());
        // The residual passes the gradient on as it is.
        [Some(gradient.into()), grad_input]
    }
}

/// [`super::dropout`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn dropout<const D: usize>(input: &Tensor<D>, dropped: Dropped) -> Option<Tensor<D>> {
    if cfg!(feature = "plain") {
        return None;
    }
    if let Some((input, node)) = open(input) {
        return Some(record(
            DropoutBackward(dropped),
            [node],
            without_graph(input, dropped),
        ));
    }
    // With gradient checkpointing only Burn's operations can be computed again, so the mask becomes
    // a tensor and the product is Burn's.
    let ones = input
        .is_autodiff()
        .then(|| input.clone().inner().ones_like())?;
    ones.clone().try_into_primitive::<Cube>().ok()?;
    let mask = Tensor::from_inner(without_graph(ones, dropped));
    let mask = match input.gradient_checkpointing_strategy() {
        Some(strategy) => mask.with_gradient_checkpointing_strategy(strategy),
        None => mask,
    };
    Some(input.clone() * mask)
}

/// The backward pass of [`dropout`].
#[derive(Clone, Debug)]
struct DropoutBackward(Dropped);

impl<const D: usize> BackwardPass<1, D> for DropoutBackward {
    fn gradients(self, gradient: Tensor<D>, _: [bool; 1]) -> [Option<Gradient>; 1] {
        [Some(without_graph(gradient, self.0).into())]
    }
}

/// Returns `input * mask` of a tensor outside of the graph.
pub(crate) fn without_graph<const D: usize>(input: Tensor<D>, dropped: Dropped) -> Tensor<D> {
    let dtype = input.dtype();
    drop_and_add("dropout", None, input, dtype, Some(dropped))
}

/// Launches `kernel::drop_and_add`: returns `residual + input * mask` in the format `dtype`,
/// without what is `None`.
pub(crate) fn drop_and_add<const D: usize>(
    name: &str,
    residual: Option<Tensor<D>>,
    input: Tensor<D>,
    dtype: DType,
    dropped: Option<Dropped>,
) -> Tensor<D> {
    let shape = input.dims();
    let size: usize = shape.iter().product();
    let vector = vector_size(size);
    let has_residual = residual.is_some();
    let has_dropout = dropped.is_some();
    // Shapes do not matter: the mask goes by the index in the flat tensor.
    let launch = move |client: &Client, inputs: [CubeTensor; 2], [output]: [CubeTensor; 1]| {
        let types = [elements(&inputs[1]), elements(&output)];
        let [residual, input] = inputs.map(CubeTensor::into_buffer_arg);
        let vectors = size / vector;
        let dim = CubeDim::new(client, vectors);
        let mask = DropoutMask::kernel_arg(dropped);
        let output = output.into_buffer_arg();
        let count = calculate_cube_count_elemwise(client, vectors, dim);
        let vectors = vectors as u32;
        kernel::drop_and_add::launch(
            client,
            count,
            dim,
            vector,
            residual,
            input,
            output,
            vectors,
            mask,
            has_residual,
            has_dropout,
            types,
        );
    };
    // Without a residual nothing is read through its binding.
    let input: Operand = input.into();
    let residual = residual.map_or_else(|| input.clone(), Operand::from);
    let [output] = queue(name, [residual, input], [(shape.to_vec(), dtype)], launch);
    output.tensor()
}
