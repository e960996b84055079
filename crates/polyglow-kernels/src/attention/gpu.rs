//! Attention on GPUs: which kernels are launched, with which block size, on how many workgroups.
//!
//! The forward pass is one kernel (`kernel.rs`). The backward pass is one or two (`backward.rs`): a
//! second one only if there are more keys or queries than a block has rows. None of them writes the
//! `[query_len, key_len]` weights to memory; the forward pass keeps two floats for each query, the
//! largest score and one over the sum of exponentials.

mod backward;
mod kernel;

use burn::tensor::{Bool, DType, Tensor};
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;

use self::kernel::{Layout, SizesLaunch};
use crate::Dropped;
use crate::dropout::gpu::draw::Draw;
use crate::factors::cast;
use crate::gpu::operation::{
    Operand, elements, most_bindings, nowhere, queue, shared_memory, vector_size,
};
use crate::gpu::{BackwardPass, Gradient, open, record};

/// Rows in a block: the first that fits into the shared memory of the device.
const BLOCKS: [usize; 3] = [32, 16, 8];

/// Bindings of the largest kernel, `backward::grad_keys`: its 8 tensors and one for its scalars.
const MAX_BINDINGS: usize = 9;
/// The most workgroups along an axis: WebGPU allows no more, nor CUDA along the second and third.
const MAX_WORKGROUPS: usize = (1 << 16) - 1;

/// [`super::self_attention`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn self_attention(
    qkv: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let (qkv, node) = open(qkv)?;
    let [batch, len, width] = qkv.dims();
    let d_model = qkv.dims()[2] / 3;
    let sizes = Sizes {
        batch,
        num_heads,
        lens: [len, len],
        widths: [width, width],
        starts: [d_model, 2 * d_model],
    };
    let (output, state) = State::attend(sizes, qkv.clone(), qkv, mask, dropped)?;
    Some(record(SelfAttention(state), [node], output))
}

/// [`super::cross_attention`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn cross_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let (query, query_node) = open(query)?;
    let (key_value, key_value_node) = open(key_value)?;
    let [batch, query_len, d_model] = query.dims();
    let [_, key_len, width] = key_value.dims();
    let sizes = Sizes {
        batch,
        num_heads,
        lens: [query_len, key_len],
        widths: [d_model, width],
        starts: [0, d_model],
    };
    let (output, state) = State::attend(sizes, query, key_value, mask, dropped)?;
    Some(record(
        CrossAttention(state),
        [query_node, key_value_node],
        output,
    ))
}

/// The shapes of an attention; pairs are of queries first, then of keys and values.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    num_heads: usize,
    lens: [usize; 2],
    widths: [usize; 2],
    /// Columns at which keys and values begin in their rows.
    starts: [usize; 2],
}

impl Sizes {
    fn d_model(self) -> usize {
        let [_, key_width] = self.widths;
        key_width - self.starts[1]
    }

    /// The layout that kernels are compiled for; `None` if no block fits into `shared` bytes.
    fn layout(self, vector: usize, dropped: Option<Dropped>, shared: usize) -> Option<Layout> {
        let head = self.d_model() / self.num_heads;
        // As `grad_keys` allocates it: two blocks of rows, two matrices of a block by a block with
        // a row of padding, and a flag for each row; 4 bytes each.
        let block = BLOCKS
            .into_iter()
            .find(|block| 4 * block * (2 * head + 2 * (block + 1) + 1) <= shared)?;
        let [query_width, key_width] = self.widths.map(|width| width / vector);
        let [key_start, value_start] = self.starts.map(|start| start / vector);
        Some(Layout {
            num_heads: self.num_heads,
            head: head / vector,
            query_width,
            key_width,
            key_start,
            value_start,
            block,
            is_self: self.widths[0] == self.widths[1],
            many: self.lens.into_iter().any(|len| len > block),
            has_dropout: dropped.is_some(),
        })
    }

    fn launch(self) -> SizesLaunch {
        let [query_len, key_len] = self.lens.map(|len| len as u32);
        let head_dim = self.d_model() / self.num_heads;
        SizesLaunch::new(query_len, key_len, (head_dim as f32).powf(-0.5))
    }

    /// A workgroup for each block of `len` rows of each head and batch row, with a thread for each
    /// row of the block.
    fn workgroups(self, len: usize, layout: Layout) -> (CubeCount, CubeDim) {
        let blocks = len.div_ceil(layout.block) as u32;
        (
            CubeCount::Static(blocks, self.num_heads as u32, self.batch as u32),
            CubeDim::new_1d(layout.block as u32),
        )
    }
}

/// Everything that the backward pass reads.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    layout: Layout,
    vector: usize,
    dropped: Option<Dropped>,
    query: Operand,
    key_value: Operand,
    mask: Operand,
    output: Operand,
    stats: Operand,
}

impl State {
    /// The output, and what its backward pass needs; `None` if the device or the shapes do not fit
    /// the kernels.
    fn attend(
        sizes: Sizes,
        query: Tensor<3>,
        key_value: Tensor<3>,
        mask: &Tensor<4, Bool>,
        dropped: Option<Dropped>,
    ) -> Option<(Tensor<3>, Self)> {
        let Sizes {
            batch,
            num_heads,
            lens: [query_len, _],
            ..
        } = sizes;
        // Each is an axis of workgroups.
        if batch > MAX_WORKGROUPS
            || num_heads > MAX_WORKGROUPS
            || query.dtype() != key_value.dtype()
        {
            return None;
        }
        let query: Operand = query.into();
        let key_value: Operand = key_value.into();
        if most_bindings(&query) < MAX_BINDINGS {
            return None;
        }
        let mask: Operand = mask.clone().inner().into();
        let vector = vector_size(sizes.d_model() / num_heads);
        let layout = sizes.layout(vector, dropped, shared_memory(&query))?;
        let shapes = [
            vec![batch, query_len, sizes.d_model()],
            vec![batch, num_heads, query_len, 2],
        ];
        let [shape, stats_shape] = shapes;
        let dtype = query.dtype();
        let launch = move |client: &Client,
                           [query, key_value, mask]: [CubeTensor; 3],
                           [output, stats]: [CubeTensor; 2]| {
            let (count, dim) = sizes.workgroups(query_len, layout);
            let types = [elements(&query), elements(&mask)];
            kernel::attend::launch(
                client,
                count,
                dim,
                vector,
                query.into_buffer_arg(),
                key_value.into_buffer_arg(),
                mask.into_tensor_arg(),
                output.into_buffer_arg(),
                stats.into_buffer_arg(),
                sizes.launch(),
                Draw::launch(dropped),
                layout,
                types,
            );
        };
        let inputs = [query.clone(), key_value.clone(), mask.clone()];
        let [output, stats] = queue(
            "attention",
            inputs,
            [(shape, dtype), (stats_shape, DType::F32)],
            launch,
        );
        let saved = Self {
            sizes,
            layout,
            vector,
            dropped,
            query,
            key_value,
            mask,
            output: output.clone(),
            stats,
        };
        Some((output.tensor(), saved))
    }

    /// The gradients, in tensors of these shapes: of queries first, then of keys and values; or one
    /// tensor for all three, side by side as the projection has them.
    fn gradients<const O: usize>(
        self,
        gradient: Tensor<3>,
        shapes: [Vec<usize>; O],
    ) -> [Operand; O] {
        let Self {
            sizes,
            layout,
            vector,
            dropped,
            query,
            key_value,
            mask,
            output,
            stats,
        } = self;
        let dtype = query.dtype();
        let launch = move |client: &Client, inputs: [CubeTensor; 6], written: [CubeTensor; O]| {
            let types = [elements(&inputs[0]), elements(&inputs[2])];
            let [query, key_value, mask, output, stats, grad_output] = inputs;
            let grad_query = &written[0];
            let grad_key_value = &written[O - 1];
            let [query_len, key_len] = sizes.lens;
            if layout.many {
                let (count, dim) = sizes.workgroups(query_len, layout);
                backward::grad_queries::launch(
                    client,
                    count,
                    dim,
                    vector,
                    query.clone().into_buffer_arg(),
                    key_value.clone().into_buffer_arg(),
                    mask.clone().into_tensor_arg(),
                    output.clone().into_buffer_arg(),
                    stats.clone().into_buffer_arg(),
                    grad_output.clone().into_buffer_arg(),
                    grad_query.clone().into_buffer_arg(),
                    sizes.launch(),
                    Draw::launch(dropped),
                    layout,
                    types,
                );
            }
            let (count, dim) = sizes.workgroups(key_len, layout);
            // In self-attention the gradients of queries go to the tensor of all three, and nothing
            // is written through this binding.
            let grad_query = if layout.is_self {
                nowhere(client, grad_query)
            } else {
                grad_query.clone()
            };
            backward::grad_keys::launch(
                client,
                count,
                dim,
                vector,
                query.into_buffer_arg(),
                key_value.into_buffer_arg(),
                mask.into_tensor_arg(),
                output.into_buffer_arg(),
                stats.into_buffer_arg(),
                grad_output.into_buffer_arg(),
                grad_query.into_buffer_arg(),
                grad_key_value.clone().into_buffer_arg(),
                sizes.launch(),
                Draw::launch(dropped),
                layout,
                types,
            );
        };
        let gradient = cast(gradient, dtype.into()).into();
        let inputs = [query, key_value, mask, output, stats, gradient];
        let name = if layout.many {
            "attention's gradients in blocks"
        } else {
            "attention's gradients"
        };
        queue(name, inputs, shapes.map(|shape| (shape, dtype)), launch)
    }
}

#[derive(Clone, Debug)]
struct SelfAttention(State);

impl BackwardPass<1, 3> for SelfAttention {
    fn gradients(self, gradient: Tensor<3>, _: [bool; 1]) -> [Option<Gradient>; 1] {
        let Sizes {
            batch,
            lens: [len, _],
            widths: [width, _],
            ..
        } = self.0.sizes;
        let [all] = self.0.gradients(gradient, [vec![batch, len, width]]);
        [Some(all.tensor::<3>().into())]
    }
}

#[derive(Clone, Debug)]
struct CrossAttention(State);

impl BackwardPass<2, 3> for CrossAttention {
    fn gradients(self, gradient: Tensor<3>, _: [bool; 2]) -> [Option<Gradient>; 2] {
        let Sizes {
            batch,
            lens: [query_len, key_len],
            widths: [query_width, key_width],
            ..
        } = self.0.sizes;
        let shapes = [
            vec![batch, query_len, query_width],
            vec![batch, key_len, key_width],
        ];
        self.0
            .gradients(gradient, shapes)
            .map(|grads| Some(grads.tensor::<3>().into()))
    }
}
