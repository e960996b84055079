//! The backward pass of attention on GPUs, which computes the weights again instead of reading
//! them.
//!
//! With `W` the weights, `M` the mask of dropout, `O` the output and `G` its gradient, all per
//! head, the formulas of [`crate::attention`] are, for query `i` and key `j`:
//! - `W_ij = exp(s_ij - m_i) / l_i`, from the statistics that the forward pass wrote;
//! - the gradient of the score `T_ij = W_ij (M_ij (G_i · v_j) - D_i)` with `D_i = G_i · O_i`, which
//!   equals `Σ_j W_ij M_ij (G_i · v_j)` and needs no pass over the keys (Dao et al., 2022);
//! - `dQ_i = scale Σ_j T_ij k_j`, `dK_j = scale Σ_i T_ij q_i` and `dV_j = Σ_i W_ij M_ij G_i`.
//!
//! # Layout
//! `dQ` is a sum over keys, `dK` and `dV` are sums over queries, so there are two kernels, and no
//! atomic additions, whose order would differ from run to run:
//! - `grad_keys`: a workgroup has a block of keys, and visits the queries a block at a time.
//!   First a thread has a query and computes its column of weights and score gradients, which go to
//!   shared memory; then, behind a barrier, a thread has a key and sums its row of them up.
//! - `grad_queries`: a workgroup has a block of queries, as in the forward pass. It is launched
//!   only if there is more than one block; otherwise `grad_keys` has all keys of a query and
//!   writes `dQ` as well.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::kernel::{
    Layout, Sizes, Tile, add, clamp_max, dot, is_forbidden, is_open, kept, load_keys_and_values,
    tile,
};
use crate::attention::FORBIDDEN;
use crate::dropout::gpu::draw::Draw;
use crate::gpu::vector::{sum, write, zeros};

/// A query with what its gradients need, in the registers of a thread.
#[derive(CubeType)]
struct Row<N: Size> {
    query: Array<Vector<f32, N>>,
    /// `G_i`, the gradient of the output.
    grad_output: Array<Vector<f32, N>>,
    /// `D_i`, the dot product of the output and its gradient.
    delta: f32,
    /// `m_i`, the largest score.
    largest: f32,
    /// `1 / l_i`, one over the sum of weights relative to the largest.
    inverse_sum: f32,
}

/// Reads a query; beyond the last everything but the arrays is 0.
#[cube]
fn row<T: Float, N: Size>(
    query: &[Vector<T, N>],
    output: &[Vector<T, N>],
    stats: &[f32],
    grad_output: &[Vector<T, N>],
    tile: &Tile,
    row: usize,
    query_len: usize,
    #[comptime] layout: Layout,
) -> Row<N> {
    let width = comptime!(layout.head);
    let mut own_query = Array::<Vector<f32, N>>::new(width);
    let mut own_grad = Array::<Vector<f32, N>>::new(width);
    let mut deltas = Vector::<f32, N>::new(0.0f32);
    let mut largest = 0.0f32;
    let mut inverse_sum = 0.0f32;
    if row < query_len {
        let at = tile.batch * query_len + row;
        let start = at * comptime!(layout.query_width) + tile.head * width;
        let out_start = at * comptime!(layout.num_heads * width) + tile.head * width;
        #[unroll]
        for i in 0..width {
            own_query[i] = Vector::cast_from(query[start + i]);
            own_grad[i] = Vector::cast_from(grad_output[out_start + i]);
            deltas += own_grad[i] * Vector::cast_from(output[out_start + i]);
        }
        let at = 2 * ((tile.batch * comptime!(layout.num_heads) + tile.head) * query_len + row);
        largest = stats[at];
        inverse_sum = stats[at + 1];
    }
    Row::<N> {
        query: own_query,
        grad_output: own_grad,
        delta: sum::<N>(deltas),
        largest,
        inverse_sum,
    }
}

/// The weight of a key after dropout, `W_ij M_ij`, and the gradient of its score times the scale,
/// `scale T_ij`. Row `j` of `keys` and `values` is the key's.
#[cube]
fn weigh<B: Int, N: Size>(
    own: &Row<N>,
    keys: &Shared<[Vector<f32, N>]>,
    values: &Shared<[Vector<f32, N>]>,
    mask: &Tensor<B>,
    tile: &Tile,
    query: usize,
    key: usize,
    j: usize,
    sizes: &Sizes,
    draw: &Draw,
    #[comptime] layout: Layout,
) -> (f32, f32) {
    let width = comptime!(layout.head);
    let forbidden = is_forbidden::<B>(mask, tile.batch, query, key);
    let score = select(
        forbidden,
        f32::new(FORBIDDEN),
        dot::<N>(&own.query, keys, j * width, width) * sizes.scale,
    );
    let weight = (score - own.largest).exp() * own.inverse_sum;
    let kept = kept(
        draw,
        tile.part,
        query * sizes.key_len as usize + key,
        layout,
    );
    let grad_score = weight
        * (dot::<N>(&own.grad_output, values, j * width, width) * kept - own.delta)
        * sizes.scale;
    // A forbidden score is a constant, so it has no gradient; its weight may be above 0 in a row
    // where everything is forbidden.
    (weight * kept, select(forbidden, 0.0f32, grad_score))
}

/// Writes the gradients of queries, where there are too many keys for `grad_keys` to have them
/// all in one block.
#[cube(launch)]
pub(super) fn grad_queries<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &[Vector<T, N>],
    stats: &[f32],
    grad_output: &[Vector<T, N>],
    grad_query: &mut [Vector<T, N>],
    sizes: Sizes,
    draw: Draw,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let tile = tile(&draw, layout);
    let block = comptime!(layout.block);
    let width = comptime!(layout.head);
    let query_len = sizes.query_len as usize;
    let key_len = sizes.key_len as usize;
    let at = tile.first + UNIT_POS as usize;
    let has_row = at < query_len;
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    let own = row::<T, N>(
        query,
        output,
        stats,
        grad_output,
        &tile,
        at,
        query_len,
        layout,
    );
    let mut sums = zeros::<N>(width);
    let mut first = 0usize;
    while first < key_len {
        // Forbidden blocks add nothing here, even to a row where everything is forbidden.
        if is_open::<B>(
            mask,
            &mut open_rows,
            tile.batch,
            at,
            first,
            key_len,
            has_row,
            false,
            layout,
        ) {
            load_keys_and_values::<T, N>(
                key_value,
                &mut keys,
                &mut values,
                &tile,
                first,
                key_len,
                layout,
            );
            sync_cube();
            if has_row {
                for j in 0..clamp_max(key_len - first, block) {
                    let key = first + j;
                    let (_, grad_score) = weigh::<B, N>(
                        &own, &keys, &values, mask, &tile, at, key, j, &sizes, &draw, layout,
                    );
                    add::<N>(&mut sums, grad_score, &keys, j * width, width);
                }
            }
        }
        first += block;
    }
    if has_row {
        let start =
            (tile.batch * query_len + at) * comptime!(layout.query_width) + tile.head * width;
        write::<T, N>(grad_query, start, &sums, width);
    }
}

/// Writes the gradients of keys and values, and those of queries where all keys are one block.
#[cube(launch)]
pub(super) fn grad_keys<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &[Vector<T, N>],
    stats: &[f32],
    grad_output: &[Vector<T, N>],
    grad_query: &mut [Vector<T, N>],
    grad_key_value: &mut [Vector<T, N>],
    sizes: Sizes,
    draw: Draw,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let tile = tile(&draw, layout);
    let block = comptime!(layout.block);
    let width = comptime!(layout.head);
    let query_len = sizes.query_len as usize;
    let key_len = sizes.key_len as usize;
    let thread = UNIT_POS as usize;
    // The same memory twice: keys and values while a thread has a query, then queries and gradients
    // of the output while a thread has a key. Four arrays would halve the block that fits.
    let mut left = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut right = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    // `[key][query]`. A row is one longer than a block, so that threads, which read a row each,
    // never access the same bank of shared memory at once.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut grad_scores = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    let mut grad_key = zeros::<N>(width);
    let mut grad_value = zeros::<N>(width);
    let key_len_here = clamp_max(key_len - tile.first, block);
    let mut first = 0usize;
    while first < query_len {
        let at = first + thread;
        let has_row = at < query_len;
        let own = row::<T, N>(
            query,
            output,
            stats,
            grad_output,
            &tile,
            at,
            query_len,
            layout,
        );
        // A query to which everything is forbidden weighs all values alike, so they have gradients.
        let needed = has_row && own.largest < comptime!(0.5 * FORBIDDEN);
        if is_open::<B>(
            mask,
            &mut open_rows,
            tile.batch,
            at,
            tile.first,
            key_len,
            has_row,
            needed,
            layout,
        ) {
            load_keys_and_values::<T, N>(
                key_value, &mut left, &mut right, &tile, tile.first, key_len, layout,
            );
            sync_cube();
            if has_row {
                let mut grad_own = zeros::<N>(width);
                for j in 0..key_len_here {
                    let key = tile.first + j;
                    let (weight, grad_score) = weigh::<B, N>(
                        &own, &left, &right, mask, &tile, at, key, j, &sizes, &draw, layout,
                    );
                    weights[j * comptime!(block + 1) + thread] = weight;
                    grad_scores[j * comptime!(block + 1) + thread] = grad_score;
                    if comptime!(!layout.many) {
                        add::<N>(&mut grad_own, grad_score, &left, j * width, width);
                    }
                }
                if comptime!(!layout.many) {
                    let start = (tile.batch * query_len + at) * comptime!(layout.query_width)
                        + tile.head * width;
                    if comptime!(layout.is_self) {
                        write::<T, N>(grad_key_value, start, &grad_own, width);
                    } else {
                        write::<T, N>(grad_query, start, &grad_own, width);
                    }
                }
            }
            // From here on keys and values are no longer read.
            sync_cube();
            #[unroll]
            for i in 0..width {
                left[thread * width + i] = own.query[i];
                right[thread * width + i] = own.grad_output[i];
            }
            sync_cube();
            if thread < key_len_here {
                for i in 0..clamp_max(query_len - first, block) {
                    let at = thread * comptime!(block + 1) + i;
                    add::<N>(&mut grad_key, grad_scores[at], &left, i * width, width);
                    add::<N>(&mut grad_value, weights[at], &right, i * width, width);
                }
            }
        }
        first += block;
    }
    if thread < key_len_here {
        let row = (tile.batch * key_len + tile.first + thread) * comptime!(layout.key_width)
            + tile.head * width;
        write::<T, N>(
            grad_key_value,
            row + comptime!(layout.key_start),
            &grad_key,
            width,
        );
        write::<T, N>(
            grad_key_value,
            row + comptime!(layout.value_start),
            &grad_value,
            width,
        );
    }
}
