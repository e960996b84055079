//! Joining tensors on GPUs: one kernel copies as many tensors as the device allows bindings.
//!
//! A thread copies one vector of the output. `ends` are the positions at which the inputs end, so a
//! thread finds its input by comparing its own position with them, in code that is unrolled for all
//! inputs.

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::gpu::operation::{Operand, max_bindings, queue_all, vector_size};

/// The most tensors that a kernel reads, with the output 32 bindings: its code has a branch for
/// each.
const MAX_TENSORS: usize = 31;

/// Whether all tensors are f32 on a GPU, outside of the graph.
pub(super) fn are_on_gpu(values: &[Tensor<1>]) -> bool {
    !cfg!(feature = "plain")
        && values.iter().all(|value| {
            let is_f32 = value.dtype() == DType::F32 && !value.is_autodiff();
            is_f32 && value.clone().try_into_primitive::<Cube>().is_ok()
        })
}

/// [`super::name`] on GPUs.
pub(super) fn name<const D: usize>(tensor: &Tensor<D>) -> Option<u64> {
    let tensor = tensor.clone().inner();
    tensor.clone().try_into_primitive::<Cube>().ok()?;
    Some(Operand::from(tensor).id().value())
}

/// [`super::joined`] of tensors on a GPU.
pub(super) fn joined(values: Vec<Tensor<1>>) -> Tensor<1> {
    let lens: Vec<usize> = values.iter().map(|value| value.dims()[0]).collect();
    let inputs: Vec<Operand> = values.into_iter().map(Operand::from).collect();
    let total = lens.iter().sum();
    // The first binding is the result.
    let max_tensors = MAX_TENSORS
        .min(max_bindings(&inputs[0]).saturating_sub(1))
        .max(1);
    let launch = move |client: &Client, inputs: Vec<CubeTensor>, [output]: [CubeTensor; 1]| {
        let mut first = 0;
        for (inputs, lens) in inputs.chunks(max_tensors).zip(lens.chunks(max_tensors)) {
            let len: usize = lens.iter().sum();
            copy_some(client, inputs, lens, &output, first);
            first += len;
        }
    };
    // One operation for the queue, however many launches it takes.
    let [output] = queue_all(
        "joined",
        inputs,
        [(vec![total], DType::F32)],
        into_contiguous,
        launch,
    );
    output.tensor()
}

/// Copies some tensors to the output, from element `first` on.
fn copy_some(
    client: &Client,
    inputs: &[CubeTensor],
    lens: &[usize],
    output: &CubeTensor,
    first: usize,
) {
    // Vectors must divide every length and the position of the first tensor, so that none crosses
    // from one tensor to the next.
    let vector = lens
        .iter()
        .chain([&first])
        .map(|len| vector_size(*len))
        .min()
        .unwrap_or(1);
    let ends = lens.iter().scan(0, |end, len| {
        *end += len / vector;
        Some(*end as u32)
    });
    let ends: Vec<u32> = ends.collect();
    let vectors = ends.last().copied().unwrap_or(0) as usize;
    let dim = CubeDim::new(client, vectors);
    let count = cubecl::calculate_cube_count_elemwise(client, vectors, dim);
    let from = inputs
        .iter()
        .map(|input| input.clone().into_buffer_arg())
        .collect();
    let to = output.clone().into_buffer_arg();
    copy::launch(
        client,
        count,
        dim,
        vector,
        from,
        ends.into_iter().collect(),
        to,
        (first / vector) as u32,
    );
}

/// Copies the vectors of all inputs to the output, from vector `first` on; `ends` are counted in
/// vectors.
#[cube(launch)]
fn copy<N: Size>(
    from: &Sequence<Box<[Vector<f32, N>]>>,
    ends: &Sequence<u32>,
    to: &mut [Vector<f32, N>],
    first: u32,
) {
    let position = ABSOLUTE_POS;
    let mut start = 0usize;
    #[unroll]
    for i in 0..from.len() {
        let end = *ends.index(i) as usize;
        if position >= start && position < end {
            to[first as usize + position] = from.index(i)[position - start];
        }
        start = end;
    }
}
