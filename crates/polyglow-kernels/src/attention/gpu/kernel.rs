//! The forward pass of attention on GPUs, `softmax(Q Kᵀ / sqrt(head_dim)) V` per head, in one
//! kernel that never writes the weights to memory.
//!
//! # The online softmax
//! A team of threads holds one query and visits the keys in order. It keeps the largest score `m` so far,
//! and relative to it the sum of weights `l = Σ exp(s_j - m)` and the weighted values
//! `o = Σ exp(s_j - m) v_j`. A score above `m` becomes the new `m`, after `l` and `o` were
//! multiplied by `exp(m_old - m_new)` (Milakov and Gimelshein, 2018; Rabe and Staats, 2021). In the
//! end `o / l` is the output, and `m` and `1 / l` are all that the backward pass needs to compute a
//! weight again (Dao et al., 2022; see [`super::backward`]). In the code `m` is `max_score`, `l` is
//! `normalizer`, `o` is `output_row`, and the query is `query_row`.
//!
//! `m` and `l` are kept apart, and not as the log-sum-exp `m + ln l`: where everything is forbidden
//! `m` is -1e9, whose neighbors in f32 are 64 away, so `ln l` would be rounded off, and every
//! weight would be 1 instead of `1 / l`.
//!
//! # Layout
//! - A workgroup has a block of `layout.block` queries of one head of one batch row. `CUBE_POS` is
//!   (block, head, batch row).
//! - `layout.team` neighboring threads share a query: of its row, and of each row that is computed
//!   from it, thread `i` of a team has vectors `i`, `i + team`, and so on. A row of 64 elements
//!   fills the registers of one thread, and few such threads find room on a multiprocessor; a fourth
//!   of it does not. A dot product of two rows is the sum of what the team's threads have, which they
//!   exchange without shared memory. Where a device cannot do that, a thread is a team.
//! - Keys and values are loaded into shared memory `layout.block` rows at a time, so that each is
//!   read from global memory once for a block of queries and not once for each query.
//! - Queries, keys and values are read where the projections wrote them, in rows of all heads, by a
//!   stride and a start (see [`Layout`]): nothing is transposed or copied first.
//! - Tensors may be in f16 or bf16; everything in between is f32.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::attention::FORBIDDEN;
use crate::dropout::gpu::mask::{DropoutMask, part_of, scale_at};
use crate::gpu::vector::{sum, zeros};

/// The layout of the projections, counted in vectors, and the division into blocks.
/// Kernels are compiled for each value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) num_heads: usize,
    /// Vectors in a row of one head: `head_dim` elements.
    pub(super) head_vectors: usize,
    /// Vectors from one row of queries to the next, and from one row of keys and values to the
    /// next.
    pub(super) query_stride: usize,
    pub(super) key_stride: usize,
    /// The start of head 0 of the keys and of the values in a row; that of the queries is 0.
    pub(super) key_start: usize,
    pub(super) value_start: usize,
    /// Whether queries, keys and values are parts of the same rows, and so their gradients. The
    /// forward pass does not need to know.
    pub(super) is_self: bool,
    /// Rows in a block.
    pub(super) block: usize,
    /// Threads that share a row: 1 or [`TEAM`].
    pub(super) team: usize,
    /// Whether there are more keys or queries than one block has.
    pub(super) has_several_blocks: bool,
    /// Whether weights are dropped; otherwise the dropout mask is not read.
    pub(super) has_dropout: bool,
}

/// Threads that share a row, where they can exchange numbers.
pub(super) const TEAM: usize = 4;

impl Layout {
    /// Vectors of a row that a thread has.
    pub(super) fn own_vectors(&self) -> usize {
        self.head_vectors / self.team
    }

    /// Threads in a workgroup.
    pub(super) fn threads(&self) -> usize {
        self.block * self.team
    }
}

/// The scalar arguments of all kernels: the lengths of a batch, and the scale of scores,
/// `1 / sqrt(head_dim)`. Unlike a [`Layout`] they may change without a kernel being compiled again.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Scalars {
    pub(super) query_len: u32,
    pub(super) key_len: u32,
    pub(super) scale: f32,
}

/// The block, head and batch row of a workgroup.
#[derive(CubeType)]
pub(super) struct Tile {
    pub(super) batch_index: usize,
    pub(super) head_index: usize,
    /// The first row of the block: a query, or in `grad_keys` a key.
    pub(super) first_row: usize,
    /// The part of the dropout mask that belongs to this head.
    pub(super) part: u32,
    /// The row of the block that this thread has a part of.
    pub(super) row: usize,
    /// The number of the thread in its team.
    pub(super) member: usize,
    /// The first row of the block that is shared by threads of this thread's plane: those that come to
    /// the same instructions together.
    pub(super) plane_row: usize,
}

/// The [`Tile`] of this workgroup.
#[cube]
pub(super) fn tile(dropout_mask: &DropoutMask, #[comptime] layout: Layout) -> Tile {
    let head = CUBE_POS_Y;
    let batch = CUBE_POS_Z;
    let team = comptime!(layout.team);
    let thread = UNIT_POS as usize;
    let mut first_thread = thread;
    if comptime!(layout.team > 1) {
        first_thread = thread - UNIT_POS_PLANE as usize;
    }
    Tile {
        batch_index: batch as usize,
        head_index: head as usize,
        first_row: CUBE_POS_X as usize * comptime!(layout.block),
        part: part_of(part_of(dropout_mask.high, batch), head),
        row: thread / team,
        member: thread % team,
        plane_row: first_thread / team,
    }
}

/// The first vector of this head in row `index` of `len` rows for each batch row, which begin
/// `stride` vectors apart; parts of the rows other than queries have a start of their own to add.
#[cube]
pub(super) fn row_start(
    tile: &Tile,
    index: usize,
    len: usize,
    #[comptime] stride: usize,
    #[comptime] layout: Layout,
) -> usize {
    (tile.batch_index * len + index) * stride + tile.head_index * comptime!(layout.head_vectors)
}

/// The position of `m` of a query of this head in the statistics; behind it is `1 / l`.
#[cube]
pub(super) fn stats_start(
    tile: &Tile,
    query_index: usize,
    query_len: usize,
    #[comptime] layout: Layout,
) -> usize {
    2 * ((tile.batch_index * comptime!(layout.num_heads) + tile.head_index) * query_len
        + query_index)
}

/// Writes the output, `[batch, query_len, d_model]`, and for each query of each head `m` and
/// `1 / l`, `stats`: `[batch, num_heads, query_len, 2]`.
#[cube(launch)]
pub(super) fn attend<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &mut [Vector<T, N>],
    stats: &mut [f32],
    scalars: Scalars,
    dropout_mask: DropoutMask,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let tile = tile(&dropout_mask, layout);
    let block = comptime!(layout.block);
    let head_vectors = comptime!(layout.head_vectors);
    let own_vectors = comptime!(layout.own_vectors());
    let query_len = scalars.query_len as usize;
    let key_len = scalars.key_len as usize;
    let query_index = tile.first_row + tile.row;
    let has_query = query_index < query_len;
    // Threads that exchange numbers take part as long as one of their plane has a query.
    let takes_part = tile.first_row + tile.plane_row < query_len;
    // The block of keys that all threads visit together, with its values; and a flag for each
    // query.
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * head_vectors));
    let mut flags = Shared::<[u32]>::new_slice(block);
    // `q` and `o` of this thread, in registers. All threads of the workgroup stay to the end, also
    // those beyond the last query: they help to load, and barriers need all of them.
    let mut query_row = Array::<Vector<f32, N>>::new(own_vectors);
    let mut output_row = zeros::<N>(own_vectors);
    if has_query {
        let stride = comptime!(layout.query_stride);
        let start = row_start(&tile, query_index, query_len, stride, layout) + tile.member;
        #[unroll]
        for i in 0..own_vectors {
            query_row[i] = Vector::cast_from(query[start + i * comptime!(layout.team)]);
        }
    }
    // `m` and `l`. Any score is above this `m`, also a forbidden one, so the first key sets it.
    let mut max_score = f32::new(-1e30);
    let mut normalizer = f32::new(0.0);
    let mut first_key = 0usize;
    while first_key < key_len {
        // If everything was forbidden so far, a forbidden block still counts: in a row without any
        // open key all weights are equal. Half of FORBIDDEN lies between it and any real score.
        // Later blocks may be skipped: next to a real score a forbidden one has weight 0.
        let needs_forbidden = has_query && max_score < comptime!(0.5 * FORBIDDEN);
        if any_query_attends::<B>(
            mask,
            &mut flags,
            &tile,
            query_index,
            first_key,
            key_len,
            has_query,
            needs_forbidden,
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
                let len = min(key_len - first_key, block);
                for j in 0..len {
                    let key_index = first_key + j;
                    let mut score = dot::<N>(&query_row, &keys, j, &tile, layout) * scalars.scale;
                    if is_forbidden::<B>(mask, tile.batch_index, query_index, key_index) {
                        score = f32::new(FORBIDDEN);
                    }
                    // A new maximum `m`: `l` and `o` so far are relative to the old one.
                    if score > max_score {
                        let shrink = (max_score - score).exp();
                        normalizer *= shrink;
                        #[unroll]
                        for i in 0..own_vectors {
                            output_row[i] *= Vector::new(shrink);
                        }
                        max_score = score;
                    }
                    // Dropout applies to the weighted values alone, not to the sum of weights.
                    let weight = (score - max_score).exp();
                    normalizer += weight;
                    let dropped_weight = weight
                        * dropout_factor(
                            &dropout_mask,
                            tile.part,
                            query_index * key_len + key_index,
                            layout,
                        );
                    add::<N>(&mut output_row, dropped_weight, &values, j, &tile, layout);
                }
            }
        }
        first_key += block;
    }
    if has_query {
        let stride = comptime!(layout.num_heads * layout.head_vectors);
        let start = row_start(&tile, query_index, query_len, stride, layout);
        // `o / l`. No division by 0: the first block is never skipped, since `m` begins below half
        // of FORBIDDEN, and the key that has the largest score adds `exp(0) = 1` to `l`.
        #[unroll]
        for i in 0..own_vectors {
            output_row[i] /= Vector::new(normalizer);
        }
        write_row::<T, N>(output, start, &output_row, &tile, layout);
        if tile.member == 0 {
            let start = stats_start(&tile, query_index, query_len, layout);
            stats[start] = max_score;
            stats[start + 1] = 1.0 / normalizer;
        }
    }
}

/// Whether any query of the workgroup may attend to a key of the block from `first_key` on, so that
/// blocks above the diagonal of a causal mask cost nothing. `true` also with `needs_forbidden`: the
/// thread's own query needs the block even where it is forbidden.
///
/// The function contains barriers, so all threads of the workgroup have to call it. It begins with
/// one, so the caller may overwrite shared memory afterwards, and it returns the same value to all
/// threads: a barrier in a branch that only some of them take would hang.
#[cube]
pub(super) fn any_query_attends<B: Int>(
    mask: &Tensor<B>,
    flags: &mut Shared<[u32]>,
    tile: &Tile,
    query_index: usize,
    first_key: usize,
    key_len: usize,
    has_query: bool,
    needs_forbidden: bool,
    #[comptime] layout: Layout,
) -> bool {
    let mut attends = true;
    // From here on no thread reads the previous block or its flags any more.
    sync_cube();
    // A single block is never skipped: a query attends to a key of it, or is forbidden all keys,
    // and then needs it.
    if comptime!(layout.has_several_blocks) {
        let mut flag = needs_forbidden;
        if has_query {
            let len = min(key_len - first_key, comptime!(layout.block));
            for j in 0..len {
                flag =
                    flag || !is_forbidden::<B>(mask, tile.batch_index, query_index, first_key + j);
            }
        }
        // Every thread counts the flags of all, so that all come to the same result.
        if tile.member == 0 {
            flags[tile.row] = u32::cast_from(flag);
        }
        sync_cube();
        let mut count = 0u32;
        for i in 0..comptime!(layout.block) {
            count += flags[i];
        }
        attends = count > 0;
    }
    attends
}

/// The smaller of both.
#[cube]
pub(super) fn min(value: usize, #[comptime] limit: usize) -> usize {
    select(value < limit, value, limit)
}

/// Whether the mask, `[batch or 1, 1, query_len or 1, key_len]`, forbids this query this key.
#[cube]
pub(super) fn is_forbidden<B: Int>(
    mask: &Tensor<B>,
    batch_index: usize,
    query_index: usize,
    key_index: usize,
) -> bool {
    // An axis of length 1 is shared by all: the remainder is 0.
    let index = (batch_index % mask.shape(0)) * mask.stride(0)
        + (query_index % mask.shape(2)) * mask.stride(2)
        + key_index * mask.stride(3);
    mask[index] != B::from_int(0)
}

/// The factor of dropout for a weight: 0 or `1 / keep`, and 1 without dropout. `index` is that of
/// the weight in the `[query_len, key_len]` matrix of its head, as on the CPU.
#[cube]
pub(super) fn dropout_factor(
    dropout_mask: &DropoutMask,
    part: u32,
    index: usize,
    #[comptime] layout: Layout,
) -> f32 {
    let mut factor = 1.0f32;
    if comptime!(layout.has_dropout) {
        factor = scale_at(dropout_mask, part, index as u32);
    }
    factor
}

/// Copies a block of keys and their values into shared memory, as [`load`] does.
#[cube]
pub(super) fn load_keys_and_values<T: Float, N: Size>(
    key_value: &[Vector<T, N>],
    keys: &mut Shared<[Vector<f32, N>]>,
    values: &mut Shared<[Vector<f32, N>]>,
    tile: &Tile,
    first_key: usize,
    key_len: usize,
    #[comptime] layout: Layout,
) {
    load::<T, N>(
        key_value,
        keys,
        comptime!(layout.key_start),
        tile,
        first_key,
        key_len,
        layout,
    );
    load::<T, N>(
        key_value,
        values,
        comptime!(layout.value_start),
        tile,
        first_key,
        key_len,
        layout,
    );
}

/// Copies a block of keys or values of a head, from row `first_row` on, into shared memory. Thread
/// `i` of `n` copies vectors `i`, `i + n`, and so on, so that neighboring threads read neighboring
/// memory.
#[cube]
fn load<T: Float, N: Size>(
    rows: &[Vector<T, N>],
    to: &mut Shared<[Vector<f32, N>]>,
    #[comptime] start: usize,
    tile: &Tile,
    first_row: usize,
    len: usize,
    #[comptime] layout: Layout,
) {
    let head_vectors = comptime!(layout.head_vectors);
    let mut at = UNIT_POS as usize;
    while at < comptime!(layout.block * layout.head_vectors) {
        let row = first_row + at / head_vectors;
        // Rows beyond the last key keep what they had: no loop over keys gets there.
        if row < len {
            let from = (tile.batch_index * len + row) * comptime!(layout.key_stride)
                + start
                + tile.head_index * head_vectors
                + at % head_vectors;
            to[at] = Vector::cast_from(rows[from]);
        }
        at += comptime!(layout.threads());
    }
}

/// The dot product of a team's row and row `index` of those in shared memory. With teams of several
/// threads all of a plane have to call it together.
#[cube]
pub(super) fn dot<N: Size>(
    row: &Array<Vector<f32, N>>,
    rows: &Shared<[Vector<f32, N>]>,
    index: usize,
    tile: &Tile,
    #[comptime] layout: Layout,
) -> f32 {
    let start = index * comptime!(layout.head_vectors) + tile.member;
    let mut sums = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..comptime!(layout.own_vectors()) {
        sums += row[i] * rows[start + i * comptime!(layout.team)];
    }
    sum_of_team(sum::<N>(sums), layout)
}

/// The sum of what the threads of a team have, the same for all of them: each step adds the sum of
/// the other half in the order that the other half does, too, since `a + b` is `b + a`.
#[cube]
pub(super) fn sum_of_team(value: f32, #[comptime] layout: Layout) -> f32 {
    let mut sum = value;
    if comptime!(layout.team > 1) {
        sum += plane_shuffle_xor(sum, 1u32);
        sum += plane_shuffle_xor(sum, 2u32);
    }
    sum
}

/// Adds `factor` times row `index` of those in shared memory to the team's row of sums.
#[cube]
pub(super) fn add<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    factor: f32,
    rows: &Shared<[Vector<f32, N>]>,
    index: usize,
    tile: &Tile,
    #[comptime] layout: Layout,
) {
    let start = index * comptime!(layout.head_vectors) + tile.member;
    #[unroll]
    for i in 0..comptime!(layout.own_vectors()) {
        sums[i] += Vector::new(factor) * rows[start + i * comptime!(layout.team)];
    }
}

/// Writes the team's row to `rows`, where the row begins at `start`.
#[cube]
pub(super) fn write_row<T: Float, N: Size>(
    rows: &mut [Vector<T, N>],
    start: usize,
    row: &Array<Vector<f32, N>>,
    tile: &Tile,
    #[comptime] layout: Layout,
) {
    #[unroll]
    for i in 0..comptime!(layout.own_vectors()) {
        rows[start + tile.member + i * comptime!(layout.team)] = Vector::cast_from(row[i]);
    }
}
