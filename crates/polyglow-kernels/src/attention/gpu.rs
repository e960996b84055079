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

use self::kernel::{Layout, ScalarsLaunch, TEAM};
use crate::Dropped;
use crate::dropout::gpu::mask::DropoutMask;
use crate::factors::cast;
use crate::gpu::operation::{
    Operand, elements, exchanges_numbers, max_bindings, placeholder, queue, shared_memory,
    vector_size,
};
use crate::gpu::{BackwardPass, Gradient, open, record};

/// Rows in a block: the first that fits into the shared memory of the device. A large block reads keys
/// and values from global memory for more queries at once.
const BLOCKS: [usize; 3] = [32, 16, 8];

/// Bindings of the largest kernel, `backward::grad_keys`: its 8 tensors and one for its scalars. A
/// device may have fewer: WebGPU promises 8.
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
    let d_model = width / 3;
    let sizes = Sizes {
        batch,
        num_heads,
        d_model,
        query_len: len,
        key_len: len,
        query_width: width,
        key_width: width,
        key_start: d_model,
        value_start: 2 * d_model,
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
        d_model,
        query_len,
        key_len,
        query_width: d_model,
        key_width: width,
        key_start: 0,
        value_start: d_model,
    };
    let (output, state) = State::attend(sizes, query, key_value, mask, dropped)?;
    Some(record(
        CrossAttention(state),
        [query_node, key_value_node],
        output,
    ))
}

/// The sizes of an attention, counted in elements.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    num_heads: usize,
    d_model: usize,
    query_len: usize,
    key_len: usize,
    /// Elements in a row of the tensor with the queries, and of that with the keys and values.
    query_width: usize,
    key_width: usize,
    /// The column at which keys begin in their row, and values; queries begin at 0.
    key_start: usize,
    value_start: usize,
}

impl Sizes {
    /// Elements in a row of one head.
    fn head_dim(self) -> usize {
        self.d_model / self.num_heads
    }

    /// The layout that kernels are compiled for on the device of a tensor; `None` if no block fits
    /// into its shared memory.
    fn layout(self, vector: usize, dropped: Option<Dropped>, on: &Operand) -> Option<Layout> {
        let head_dim = self.head_dim();
        let shared = shared_memory(on);
        let has_teams = exchanges_numbers(on, TEAM) && (head_dim / vector).is_multiple_of(TEAM);
        // As `grad_keys` allocates it, which needs more than the others: two blocks of rows, two
        // matrices of a block by a block with a column of padding, and a flag for each row; 4 bytes
        // each.
        let block = BLOCKS
            .into_iter()
            .find(|block| 4 * block * (2 * head_dim + 2 * (block + 1) + 1) <= shared)?;
        Some(Layout {
            num_heads: self.num_heads,
            head_vectors: head_dim / vector,
            query_stride: self.query_width / vector,
            key_stride: self.key_width / vector,
            key_start: self.key_start / vector,
            value_start: self.value_start / vector,
            block,
            team: if has_teams { TEAM } else { 1 },
            // In cross-attention rows of keys and values are twice as wide as those of queries.
            is_self: self.query_width == self.key_width,
            has_several_blocks: self.query_len.max(self.key_len) > block,
            has_dropout: dropped.is_some(),
        })
    }

    /// The scalar arguments of a kernel.
    fn kernel_args(self) -> ScalarsLaunch {
        let scale = (self.head_dim() as f32).powf(-0.5);
        ScalarsLaunch::new(self.query_len as u32, self.key_len as u32, scale)
    }

    /// A workgroup for each block of `len` rows of each head and batch row, with a team of threads for
    /// each row of the block.
    fn workgroups(self, len: usize, layout: Layout) -> (CubeCount, CubeDim) {
        let blocks = len.div_ceil(layout.block) as u32;
        (
            CubeCount::Static(blocks, self.num_heads as u32, self.batch as u32),
            CubeDim::new_1d(layout.threads() as u32),
        )
    }
}

/// Everything that the backward pass reads.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    layout: Layout,
    /// Elements in a vector.
    vector: usize,
    dropped: Option<Dropped>,
    /// In self-attention the projection of all three, as `key_value`.
    query: Operand,
    key_value: Operand,
    /// Read by its strides, so it may be a view that is expanded.
    mask: Operand,
    /// Kept for `D_i`, the dot product with its gradient.
    output: Operand,
    /// As `kernel::attend` writes them.
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
            query_len,
            ..
        } = sizes;
        // Both are axes of workgroups. Tensors of two formats would need kernels of their own.
        if batch > MAX_WORKGROUPS
            || num_heads > MAX_WORKGROUPS
            || query.dtype() != key_value.dtype()
        {
            return None;
        }
        let query: Operand = query.into();
        let key_value: Operand = key_value.into();
        if max_bindings(&query) < MAX_BINDINGS {
            return None;
        }
        // Outside of the graph, as the projections are: a mask has no gradient.
        let mask: Operand = mask.clone().inner().into();
        let vector = vector_size(sizes.head_dim());
        let layout = sizes.layout(vector, dropped, &query)?;
        let shapes = [
            vec![batch, query_len, sizes.d_model],
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
                sizes.kernel_args(),
                DropoutMask::kernel_arg(dropped),
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

    /// The gradients, in tensors of these shapes: of queries first, then of keys and values
    /// (cross-attention); or one tensor for all three, side by side as the projection has them
    /// (self-attention).
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
            // With one tensor for all three both are the same.
            let grad_query = &written[0];
            let grad_key_value = &written[O - 1];
            // Otherwise `grad_keys` below has all keys of a query in its block, and writes the
            // gradients of queries itself.
            if layout.has_several_blocks {
                let (count, dim) = sizes.workgroups(sizes.query_len, layout);
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
                    sizes.kernel_args(),
                    DropoutMask::kernel_arg(dropped),
                    layout,
                    types,
                );
            }
            let (count, dim) = sizes.workgroups(sizes.key_len, layout);
            // In self-attention the gradients of queries go to the tensor of all three, and nothing
            // is written through this binding.
            let grad_query = if layout.is_self {
                placeholder(client, grad_query)
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
                sizes.kernel_args(),
                DropoutMask::kernel_arg(dropped),
                layout,
                types,
            );
        };
        // Kernels are compiled for one format of all tensors.
        let gradient = cast(gradient, dtype.into()).into();
        let inputs = [query, key_value, mask, output, stats, gradient];
        let name = if layout.has_several_blocks {
            "attention's gradients in blocks"
        } else {
            "attention's gradients"
        };
        queue(name, inputs, shapes.map(|shape| (shape, dtype)), launch)
    }
}

/// The backward pass of [`self_attention`].
#[derive(Clone, Debug)]
struct SelfAttention(State);

impl BackwardPass<1, 3> for SelfAttention {
    fn gradients(self, gradient: Tensor<3>, _: [bool; 1]) -> [Option<Gradient>; 1] {
        let Sizes {
            batch,
            query_len,
            query_width,
            ..
        } = self.0.sizes;
        let [all] = self
            .0
            .gradients(gradient, [vec![batch, query_len, query_width]]);
        [Some(all.tensor::<3>().into())]
    }
}

/// The backward pass of [`cross_attention`].
#[derive(Clone, Debug)]
struct CrossAttention(State);

impl BackwardPass<2, 3> for CrossAttention {
    fn gradients(self, gradient: Tensor<3>, _: [bool; 2]) -> [Option<Gradient>; 2] {
        let Sizes {
            batch,
            query_len,
            key_len,
            query_width,
            key_width,
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
