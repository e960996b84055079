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
//!   First a team of threads ([`super::kernel`]) has a query and computes its column of weights and
//!   score gradients, which go to shared memory; then, behind a barrier, it has a key and sums its
//!   row of them up.
//! - `grad_queries`: a workgroup has a block of queries, as in the forward pass. It is launched
//!   only if there is more than one block; otherwise `grad_keys` has all keys of a query and
//!   writes `dQ` as well.
//!
//! A team of `grad_keys` has five arrays of `head_dim` floats, and with one block of queries needs
//! three at once at most. Five of a head of 64 are more than the registers of an NVIDIA thread (255),
//! and three leave room for few threads; a fourth of them does not.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::kernel::{
    Layout, Scalars, Tile, add, any_query_attends, dot, dropout_factor, is_forbidden,
    load_keys_and_values, min, row_start, stats_start, sum_of_team, tile, write_row,
};
use crate::attention::FORBIDDEN;
use crate::dropout::gpu::mask::DropoutMask;
use crate::gpu::vector::{sum, zeros};

/// A query with what its gradients need, in the registers of a team.
#[derive(CubeType)]
struct QueryRow<N: Size> {
    /// `q_i`, the query.
    query: Array<Vector<f32, N>>,
    /// `G_i`, the gradient of the output.
    grad_output: Array<Vector<f32, N>>,
    /// `D_i`, the dot product of the output and its gradient.
    delta: f32,
    /// `m_i`, the largest score.
    max_score: f32,
    /// `1 / l_i`, one over the sum of weights relative to the largest score.
    inverse_normalizer: f32,
}

/// Reads the query of a team with what its gradients need. Beyond the last query the arrays are
/// undefined, and everything else is 0.
#[cube]
fn load_query<T: Float, N: Size>(
    query: &[Vector<T, N>],
    output: &[Vector<T, N>],
    stats: &[f32],
    grad_output: &[Vector<T, N>],
    tile: &Tile,
    query_index: usize,
    query_len: usize,
    #[comptime] layout: Layout,
) -> QueryRow<N> {
    let own_vectors = comptime!(layout.own_vectors());
    let team = comptime!(layout.team);
    let mut query_vectors = Array::<Vector<f32, N>>::new(own_vectors);
    let mut grad_vectors = Array::<Vector<f32, N>>::new(own_vectors);
    let mut products = Vector::<f32, N>::new(0.0f32);
    let mut max_score = 0.0f32;
    let mut inverse_normalizer = 0.0f32;
    if query_index < query_len {
        let stride = comptime!(layout.query_stride);
        let start = row_start(tile, query_index, query_len, stride, layout) + tile.member;
        let output_stride = comptime!(layout.num_heads * layout.head_vectors);
        let output_start =
            row_start(tile, query_index, query_len, output_stride, layout) + tile.member;
        #[unroll]
        for i in 0..own_vectors {
            query_vectors[i] = Vector::cast_from(query[start + i * team]);
            grad_vectors[i] = Vector::cast_from(grad_output[output_start + i * team]);
            products += grad_vectors[i] * Vector::cast_from(output[output_start + i * team]);
        }
        let start = stats_start(tile, query_index, query_len, layout);
        max_score = stats[start];
        inverse_normalizer = stats[start + 1];
    }
    QueryRow::<N> {
        query: query_vectors,
        grad_output: grad_vectors,
        delta: sum_of_team(sum::<N>(products), layout),
        max_score,
        inverse_normalizer,
    }
}

/// The weight of a key after dropout, `W_ij M_ij`, and the gradient of its score times the scale,
/// `scale T_ij`. Row `j` of `keys` and `values` belongs to the key.
#[cube]
fn weigh<B: Int, N: Size>(
    query_row: &QueryRow<N>,
    keys: &Shared<[Vector<f32, N>]>,
    values: &Shared<[Vector<f32, N>]>,
    mask: &Tensor<B>,
    tile: &Tile,
    query_index: usize,
    key_index: usize,
    j: usize,
    scalars: &Scalars,
    dropout_mask: &DropoutMask,
    #[comptime] layout: Layout,
) -> (f32, f32) {
    // By the same operations as in the forward pass, so that the weight is the one that it used.
    let forbidden = is_forbidden::<B>(mask, tile.batch_index, query_index, key_index);
    let score = select(
        forbidden,
        f32::new(FORBIDDEN),
        dot::<N>(&query_row.query, keys, j, tile, layout) * scalars.scale,
    );
    let weight = (score - query_row.max_score).exp() * query_row.inverse_normalizer;
    let factor = dropout_factor(
        dropout_mask,
        tile.part,
        query_index * scalars.key_len as usize + key_index,
        layout,
    );
    let grad_score = weight
        * (dot::<N>(&query_row.grad_output, values, j, tile, layout) * factor - query_row.delta)
        * scalars.scale;
    // A forbidden score is a constant, so it has no gradient; its weight may be above 0 in a row
    // where everything is forbidden.
    (weight * factor, select(forbidden, 0.0f32, grad_score))
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
    scalars: Scalars,
    dropout_mask: DropoutMask,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let tile = tile(&dropout_mask, layout);
    let block = comptime!(layout.block);
    let head_vectors = comptime!(layout.head_vectors);
    let query_len = scalars.query_len as usize;
    let key_len = scalars.key_len as usize;
    let query_index = tile.first_row + tile.row;
    let has_query = query_index < query_len;
    // Threads that exchange numbers take part as long as one of their plane has a query.
    let takes_part = tile.first_row + tile.plane_row < query_len;
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    let mut flags = Shared::<[u32]>::new_slice(block);
    let query_row = load_query::<T, N>(
        query,
        output,
        stats,
        grad_output,
        &tile,
        query_index,
        query_len,
        layout,
    );
    let mut grad_row = zeros::<N>(comptime!(layout.own_vectors()));
    let mut first_key = 0usize;
    while first_key < key_len {
        // Forbidden blocks add nothing here, even to a row where everything is forbidden: a
        // forbidden score has no gradient.
        if any_query_attends::<B>(
            mask,
            &mut flags,
            &tile,
            query_index,
            first_key,
            key_len,
            has_query,
            false,
            layout,
        ) {
            load_keys_and_values::<T, N>(
                key_value,
                &mut keys,
                &mut values,
                &tile,
                first_key,
                key_len,
                layout,
            );
            // No thread reads the block before all have loaded their share of it.
            sync_cube();
            if takes_part {
                for j in 0..min(key_len - first_key, block) {
                    let key_index = first_key + j;
                    // `dQ` needs the gradients of the scores alone.
                    let (_, grad_score) = weigh::<B, N>(
                        &query_row,
                        &keys,
                        &values,
                        mask,
                        &tile,
                        query_index,
                        key_index,
                        j,
                        &scalars,
                        &dropout_mask,
                        layout,
                    );
                    add::<N>(&mut grad_row, grad_score, &keys, j, &tile, layout);
                }
            }
        }
        first_key += block;
    }
    if has_query {
        let stride = comptime!(layout.query_stride);
        let start = row_start(&tile, query_index, query_len, stride, layout);
        write_row::<T, N>(grad_query, start, &grad_row, &tile, layout);
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
    scalars: Scalars,
    dropout_mask: DropoutMask,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let tile = tile(&dropout_mask, layout);
    let block = comptime!(layout.block);
    let head_vectors = comptime!(layout.head_vectors);
    let query_len = scalars.query_len as usize;
    let key_len = scalars.key_len as usize;
    let row = tile.row;
    let team = comptime!(layout.team);
    let own_vectors = comptime!(layout.own_vectors());
    // The same memory twice: keys and values while a team has a query, then queries and gradients
    // of the output while a team has a key. Four arrays would halve the block that fits.
    let mut left = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    let mut right = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    // `W_ij M_ij` and `scale T_ij`, `[key][query]`. A row is one longer than a block, so that
    // teams, which read a row each, never access the same bank of shared memory at once.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut grad_scores = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut flags = Shared::<[u32]>::new_slice(block);
    let mut grad_key = zeros::<N>(own_vectors);
    let mut grad_value = zeros::<N>(own_vectors);
    // The last block of keys may be shorter.
    let key_len_here = min(key_len - tile.first_row, block);
    // The compiler has to know where there is one block of queries alone: the sums for keys are zeros
    // then until the second half of it, and need no registers in the first.
    let mut query_end = query_len;
    if comptime!(!layout.has_several_blocks) {
        query_end = block.runtime();
    }
    let mut first_query = 0usize;
    while first_query < query_end {
        let query_index = first_query + row;
        let has_query = query_index < query_len;
        let takes_part = first_query + tile.plane_row < query_len;
        let query_row = load_query::<T, N>(
            query,
            output,
            stats,
            grad_output,
            &tile,
            query_index,
            query_len,
            layout,
        );
        // A query to which everything is forbidden weighs all values alike, so they have gradients.
        let needs_forbidden = has_query && query_row.max_score < comptime!(0.5 * FORBIDDEN);
        if any_query_attends::<B>(
            mask,
            &mut flags,
            &tile,
            query_index,
            tile.first_row,
            key_len,
            has_query,
            needs_forbidden,
            layout,
        ) {
            load_keys_and_values::<T, N>(
                key_value,
                &mut left,
                &mut right,
                &tile,
                tile.first_row,
                key_len,
                layout,
            );
            // No thread reads the block before all have loaded their share of it.
            sync_cube();
            // Now the team has a query, and computes its column of `weights` and `grad_scores`.
            if takes_part {
                let mut grad_row = zeros::<N>(own_vectors);
                for j in 0..key_len_here {
                    let key_index = tile.first_row + j;
                    let (weight, grad_score) = weigh::<B, N>(
                        &query_row,
                        &left,
                        &right,
                        mask,
                        &tile,
                        query_index,
                        key_index,
                        j,
                        &scalars,
                        &dropout_mask,
                        layout,
                    );
                    // All threads of the team write the same: a branch could part them before they
                    // exchange sums again.
                    weights[j * comptime!(block + 1) + row] = weight;
                    grad_scores[j * comptime!(block + 1) + row] = grad_score;
                    // With several blocks of keys `dQ` is a sum over workgroups: `grad_queries`.
                    if comptime!(!layout.has_several_blocks) {
                        add::<N>(&mut grad_row, grad_score, &left, j, &tile, layout);
                    }
                }
                if comptime!(!layout.has_several_blocks) && has_query {
                    let stride = comptime!(layout.query_stride);
                    let start = row_start(&tile, query_index, query_len, stride, layout);
                    if comptime!(layout.is_self) {
                        write_row::<T, N>(grad_key_value, start, &grad_row, &tile, layout);
                    } else {
                        write_row::<T, N>(grad_query, start, &grad_row, &tile, layout);
                    }
                }
            }
            // From here on keys and values are no longer read, so their memory is free.
            sync_cube();
            #[unroll]
            for i in 0..own_vectors {
                let at = row * head_vectors + tile.member + i * team;
                left[at] = query_row.query[i];
                right[at] = query_row.grad_output[i];
            }
            // A team reads what all others have written: their queries, weights and gradients.
            sync_cube();
            // Now the team has a key, and sums up its row of both over the queries, in their
            // order, so that the sums are the same in every run.
            if row < key_len_here {
                for i in 0..min(query_len - first_query, block) {
                    let entry = row * comptime!(block + 1) + i;
                    add::<N>(&mut grad_key, grad_scores[entry], &left, i, &tile, layout);
                    add::<N>(&mut grad_value, weights[entry], &right, i, &tile, layout);
                }
            }
        }
        first_query += block;
    }
    // Keys that no query attends to get zeros: the gradients are not initialized otherwise.
    if row < key_len_here {
        let stride = comptime!(layout.key_stride);
        let start = row_start(&tile, tile.first_row + row, key_len, stride, layout);
        write_row::<T, N>(
            grad_key_value,
            start + comptime!(layout.key_start),
            &grad_key,
            &tile,
            layout,
        );
        write_row::<T, N>(
            grad_key_value,
            start + comptime!(layout.value_start),
            &grad_value,
            &tile,
            layout,
        );
    }
}
