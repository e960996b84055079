//! The forward pass of attention on GPUs, `softmax(Q Kᵀ / sqrt(head_dim)) V` per head, in one
//! kernel that never writes the weights to memory.
//!
//! # The online softmax
//! A thread holds one query and visits the keys in order. It keeps the largest score `m` so far,
//! and relative to it the sum of weights `l = Σ exp(s_j - m)` and the weighted values
//! `o = Σ exp(s_j - m) v_j`. A score above `m` becomes the new `m`, after `l` and `o` were
//! multiplied by `exp(m_old - m_new)` (Milakov and Gimelshein, 2018; Rabe and Staats, 2021). In the
//! end `o / l` is the output, and `m` and `1 / l` are all that the backward pass needs to compute a
//! weight again (Dao et al., 2022; see [`super::backward`]).
//!
//! # Layout
//! - A workgroup has a block of `layout.block` queries of one head of one batch row; thread `i` has
//!   query `i` of the block. `CUBE_POS` is (block, head, batch row).
//! - Keys and values are loaded into shared memory `layout.block` rows at a time, so that each is
//!   read from global memory once for a block of queries and not once for each query.
//! - Queries, keys and values are read where the projections wrote them, in rows of all heads, by a
//!   width and a start (see [`Layout`]): nothing is transposed or copied first.
//! - Tensors may be in f16 or bf16; everything in between is f32.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::attention::FORBIDDEN;
use crate::dropout::gpu::draw::{Draw, part_of, scale_at};
use crate::gpu::vector::{sum, write, zeros};

/// The layout of the projections, counted in vectors, and the division into blocks.
/// Kernels are compiled for each value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) num_heads: usize,
    /// Vectors in `head_dim`.
    pub(super) head: usize,
    /// Vectors from one row of queries to the next, and from one row of keys and values to the
    /// next.
    pub(super) query_width: usize,
    pub(super) key_width: usize,
    /// The start of head 0 of the keys and of the values in a row; that of the queries is 0.
    pub(super) key_start: usize,
    pub(super) value_start: usize,
    /// Whether queries, keys and values are parts of the same rows.
    pub(super) is_self: bool,
    /// Rows in a block, and threads in a workgroup.
    pub(super) block: usize,
    /// Whether there may be more keys or queries than one block has.
    pub(super) many: bool,
    pub(super) has_dropout: bool,
}

/// The lengths of a batch, and the scale of scores, `1 / sqrt(head_dim)`.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    pub(super) query_len: u32,
    pub(super) key_len: u32,
    pub(super) scale: f32,
}

/// The block, head and batch row of a workgroup.
#[derive(CubeType)]
pub(super) struct Tile {
    pub(super) batch: usize,
    pub(super) head: usize,
    /// The first row of the block.
    pub(super) first: usize,
    /// The part of the dropout mask that belongs to this head.
    pub(super) part: u32,
}

/// The [`Tile`] of this workgroup.
#[cube]
pub(super) fn tile(draw: &Draw, #[comptime] layout: Layout) -> Tile {
    let head = CUBE_POS_Y;
    let batch = CUBE_POS_Z;
    Tile {
        batch: batch as usize,
        head: head as usize,
        first: CUBE_POS_X as usize * comptime!(layout.block),
        part: part_of(part_of(draw.high, batch), head),
    }
}

/// Writes the output, `[batch, query_len, d_model]`, and for each query of each head the largest
/// score and one over the sum of weights relative to it, `stats`:
/// `[batch, num_heads, query_len, 2]`.
#[cube(launch)]
pub(super) fn attend<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &mut [Vector<T, N>],
    stats: &mut [f32],
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
    let row = tile.first + UNIT_POS as usize;
    let has_row = row < query_len;
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    // `q` and `o` of this thread, in registers. All threads of the workgroup stay to the end, also
    // those beyond the last query: they help to load, and barriers need all of them.
    let mut own = Array::<Vector<f32, N>>::new(width);
    let mut sums = zeros::<N>(width);
    if has_row {
        let start =
            (tile.batch * query_len + row) * comptime!(layout.query_width) + tile.head * width;
        #[unroll]
        for i in 0..width {
            own[i] = Vector::cast_from(query[start + i]);
        }
    }
    // Lower than any score, also than a forbidden one.
    let mut largest = f32::new(-1e30);
    let mut total = f32::new(0.0);
    let mut first = 0usize;
    while first < key_len {
        // If everything was forbidden so far, a forbidden block still counts: in a row without any
        // open key all weights are equal.
        let needed = has_row && largest < comptime!(0.5 * FORBIDDEN);
        if is_open::<B>(
            mask,
            &mut open_rows,
            tile.batch,
            row,
            first,
            key_len,
            has_row,
            needed,
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
                let len = clamp_max(key_len - first, block);
                for j in 0..len {
                    let key = first + j;
                    let mut score = dot::<N>(&own, &keys, j * width, width) * sizes.scale;
                    if is_forbidden::<B>(mask, tile.batch, row, key) {
                        score = f32::new(FORBIDDEN);
                    }
                    // A new maximum `m`: `l` and `o` so far are relative to the old one.
                    if score > largest {
                        let shrink = (largest - score).exp();
                        total *= shrink;
                        #[unroll]
                        for i in 0..width {
                            sums[i] *= Vector::new(shrink);
                        }
                        largest = score;
                    }
                    // Dropout applies to the weighted values alone, not to the sum of weights.
                    let weight = (score - largest).exp();
                    total += weight;
                    let kept = weight * kept(&draw, tile.part, row * key_len + key, layout);
                    add::<N>(&mut sums, kept, &values, j * width, width);
                }
            }
        }
        first += block;
    }
    if has_row {
        let start = (tile.batch * query_len + row) * comptime!(layout.num_heads * width)
            + tile.head * width;
        // `o / l`.
        #[unroll]
        for i in 0..width {
            sums[i] /= Vector::new(total);
        }
        write::<T, N>(output, start, &sums, width);
        let start = 2 * ((tile.batch * comptime!(layout.num_heads) + tile.head) * query_len + row);
        stats[start] = largest;
        stats[start + 1] = 1.0 / total;
    }
}

/// Whether any query of the workgroup may attend to a key of this block, so that blocks above the
/// diagonal of a causal mask cost nothing. `needed` forces it for the thread's own query.
///
/// It begins with a barrier, so the caller may overwrite shared memory afterwards, and it returns
/// the same value to all threads: a barrier in a branch that only some of them take would hang.
#[cube]
pub(super) fn is_open<B: Int>(
    mask: &Tensor<B>,
    open_rows: &mut Shared<[u32]>,
    batch: usize,
    row: usize,
    first: usize,
    key_len: usize,
    has_row: bool,
    needed: bool,
    #[comptime] layout: Layout,
) -> bool {
    let mut open = true;
    // From here on no thread reads the previous block or its flags any more.
    sync_cube();
    if comptime!(layout.many) {
        let mut own = needed;
        if has_row {
            let len = clamp_max(key_len - first, comptime!(layout.block));
            for j in 0..len {
                own = own || !is_forbidden::<B>(mask, batch, row, first + j);
            }
        }
        // Every thread counts the flags of all, so that all come to the same result.
        open_rows[UNIT_POS as usize] = u32::cast_from(own);
        sync_cube();
        let mut count = 0u32;
        for i in 0..comptime!(layout.block) {
            count += open_rows[i];
        }
        open = count > 0;
    }
    open
}

/// The smaller of both.
#[cube]
pub(super) fn clamp_max(value: usize, #[comptime] limit: usize) -> usize {
    select(value < limit, value, limit)
}

/// Whether the mask, `[batch or 1, 1, query_len or 1, key_len]`, forbids this query this key.
#[cube]
pub(super) fn is_forbidden<B: Int>(mask: &Tensor<B>, batch: usize, row: usize, key: usize) -> bool {
    // An axis of length 1 is shared by all: the remainder is 0.
    let index = (batch % mask.shape(0)) * mask.stride(0)
        + (row % mask.shape(2)) * mask.stride(2)
        + key * mask.stride(3);
    mask[index] != B::from_int(0)
}

/// The factor of dropout for a weight: 0 or `1 / keep`, and 1 without dropout.
#[cube]
pub(super) fn kept(draw: &Draw, part: u32, index: usize, #[comptime] layout: Layout) -> f32 {
    let mut scale = 1.0f32;
    if comptime!(layout.has_dropout) {
        scale = scale_at(draw, part, index as u32);
    }
    scale
}

/// Copies a block of keys and their values into shared memory, as [`load`] does.
#[cube]
pub(super) fn load_keys_and_values<T: Float, N: Size>(
    key_value: &[Vector<T, N>],
    keys: &mut Shared<[Vector<f32, N>]>,
    values: &mut Shared<[Vector<f32, N>]>,
    tile: &Tile,
    first: usize,
    key_len: usize,
    #[comptime] layout: Layout,
) {
    load::<T, N>(
        key_value,
        keys,
        comptime!(layout.key_start),
        tile,
        first,
        key_len,
        layout,
    );
    load::<T, N>(
        key_value,
        values,
        comptime!(layout.value_start),
        tile,
        first,
        key_len,
        layout,
    );
}

/// Copies a block of rows of a head, from row `first` on, into shared memory. Thread `i` copies
/// vectors `i`, `i + block`, and so on, so that neighboring threads read neighboring memory.
#[cube]
fn load<T: Float, N: Size>(
    rows: &[Vector<T, N>],
    to: &mut Shared<[Vector<f32, N>]>,
    #[comptime] start: usize,
    tile: &Tile,
    first: usize,
    len: usize,
    #[comptime] layout: Layout,
) {
    let width = comptime!(layout.head);
    let mut at = UNIT_POS as usize;
    while at < comptime!(layout.block * layout.head) {
        let row = first + at / width;
        if row < len {
            let from = (tile.batch * len + row) * comptime!(layout.key_width)
                + start
                + tile.head * width
                + at % width;
            to[at] = Vector::cast_from(rows[from]);
        }
        at += comptime!(layout.block);
    }
}

/// The dot product of a thread's row and the shared row that begins at `start`.
#[cube]
pub(super) fn dot<N: Size>(
    own: &Array<Vector<f32, N>>,
    rows: &Shared<[Vector<f32, N>]>,
    start: usize,
    #[comptime] width: usize,
) -> f32 {
    let mut sums = Vector::<f32, N>::new(0.0f32);
    #[unroll]
    for i in 0..width {
        sums += own[i] * rows[start + i];
    }
    sum::<N>(sums)
}

/// Adds `times` the shared row that begins at `start` to the sums.
#[cube]
pub(super) fn add<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    times: f32,
    rows: &Shared<[Vector<f32, N>]>,
    start: usize,
    #[comptime] width: usize,
) {
    #[unroll]
    for i in 0..width {
        sums[i] += Vector::new(times) * rows[start + i];
    }
}
