//! Attention as kernels of its own: a unit has a row, a cube a block of rows of one head, and
//! weights are never in memory.
//!
//! Forwards a unit goes through the keys with its query, and keeps the largest score so far and
//! sums relative to it (Milakov and Gimelshein, 2018; Rabe and Staats, 2021). Backwards weights are
//! computed again from the largest score and the sum (Dao et al., 2022): units take queries to find
//! the slopes of a block of scores, then keys to sum them up. Numbers are f32 in between, whatever
//! tensors have.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::attention::FORBIDDEN;
use crate::dropout::gpu::draw::{Draw, part_of, scale_at};
use crate::gpu::vector::{sum, write, zeros};

/// Where the numbers of a head are, counted in vectors, and how kernels go through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) num_heads: usize,
    /// Vectors of a head.
    pub(super) head: usize,
    /// Vectors of a row of queries, and of one of keys and values.
    pub(super) query_width: usize,
    pub(super) key_width: usize,
    /// Where the first head of keys and that of values begin in their row; queries begin at 0.
    pub(super) key_start: usize,
    pub(super) value_start: usize,
    /// Whether queries are in the rows of keys and values.
    pub(super) is_self: bool,
    /// Rows of a block.
    pub(super) block: usize,
    /// Whether keys or queries may be more than a block.
    pub(super) many: bool,
    pub(super) has_dropout: bool,
}

/// The lengths of a batch, and what scores are multiplied by.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    pub(super) query_len: u32,
    pub(super) key_len: u32,
    pub(super) scale: f32,
}

/// Which block of which head of which sentence a cube has.
#[derive(CubeType)]
pub(super) struct Place {
    pub(super) batch: usize,
    pub(super) head: usize,
    /// The first row of the block.
    pub(super) first: usize,
    /// The part of a mask that is this head's.
    pub(super) part: u32,
}

#[cube]
pub(super) fn place(draw: &Draw, #[comptime] layout: Layout) -> Place {
    let head = CUBE_POS_Y;
    let batch = CUBE_POS_Z;
    Place {
        batch: batch as usize,
        head: head as usize,
        first: CUBE_POS_X as usize * comptime!(layout.block),
        part: part_of(part_of(draw.high, batch), head),
    }
}

/// The output, `[batch, query_len, d_model]`, and for each row of each head its largest score and
/// one over the sum of weights relative to it, `[batch, num_heads, query_len, 2]`.
#[cube(launch)]
pub(super) fn attend<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &mut [Vector<T, N>],
    norms: &mut [f32],
    sizes: Sizes,
    draw: Draw,
    #[comptime] layout: Layout,
    #[define(T, B)] _types: [ElemType; 2],
) {
    let place = place(&draw, layout);
    let block = comptime!(layout.block);
    let width = comptime!(layout.head);
    let query_len = sizes.query_len as usize;
    let key_len = sizes.key_len as usize;
    let row = place.first + UNIT_POS as usize;
    let has_row = row < query_len;
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    let mut own = Array::<Vector<f32, N>>::new(width);
    let mut sums = zeros::<N>(width);
    if has_row {
        let start =
            (place.batch * query_len + row) * comptime!(layout.query_width) + place.head * width;
        #[unroll]
        for i in 0..width {
            own[i] = Vector::cast_from(query[start + i]);
        }
    }
    // Lower than any score.
    let mut largest = f32::new(-1e30);
    let mut total = f32::new(0.0);
    let mut first = 0usize;
    while first < key_len {
        // A row without a score above this is one where everything is forbidden so far, and counts.
        let wanted = has_row && largest < comptime!(0.5 * FORBIDDEN);
        if is_open::<B>(
            mask,
            &mut open_rows,
            place.batch,
            row,
            first,
            key_len,
            has_row,
            wanted,
            layout,
        ) {
            load::<T, N>(
                key_value,
                &mut keys,
                comptime!(layout.key_start),
                &place,
                first,
                key_len,
                layout,
            );
            load::<T, N>(
                key_value,
                &mut values,
                comptime!(layout.value_start),
                &place,
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
                    if is_forbidden::<B>(mask, place.batch, row, key) {
                        score = f32::new(FORBIDDEN);
                    }
                    if score > largest {
                        let shrink = (largest - score).exp();
                        total *= shrink;
                        #[unroll]
                        for i in 0..width {
                            sums[i] *= Vector::new(shrink);
                        }
                        largest = score;
                    }
                    let weight = (score - largest).exp();
                    total += weight;
                    let kept = weight * kept(&draw, place.part, row * key_len + key, layout);
                    add::<N>(&mut sums, kept, &values, j * width, width);
                }
            }
        }
        first += block;
    }
    if has_row {
        let start = (place.batch * query_len + row) * comptime!(layout.num_heads * width)
            + place.head * width;
        #[unroll]
        for i in 0..width {
            sums[i] /= Vector::new(total);
        }
        write::<T, N>(output, start, &sums, width);
        let start =
            2 * ((place.batch * comptime!(layout.num_heads) + place.head) * query_len + row);
        norms[start] = largest;
        norms[start + 1] = 1.0 / total;
    }
}

/// Whether a block of keys counts for any row of the cube. All units leave it together, and have
/// read what was shared before.
#[cube]
pub(super) fn is_open<B: Int>(
    mask: &Tensor<B>,
    open_rows: &mut Shared<[u32]>,
    batch: usize,
    row: usize,
    first: usize,
    key_len: usize,
    has_row: bool,
    wanted: bool,
    #[comptime] layout: Layout,
) -> bool {
    let mut open = true;
    sync_cube();
    if comptime!(layout.many) {
        let mut own = wanted;
        if has_row {
            let len = clamp_max(key_len - first, comptime!(layout.block));
            for j in 0..len {
                own = own || !is_forbidden::<B>(mask, batch, row, first + j);
            }
        }
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

#[cube]
pub(super) fn clamp_max(number: usize, #[comptime] most: usize) -> usize {
    select(number < most, number, most)
}

#[cube]
pub(super) fn is_forbidden<B: Int>(mask: &Tensor<B>, batch: usize, row: usize, key: usize) -> bool {
    // An axis of one counts for all.
    let index = (batch % mask.shape(0)) * mask.stride(0)
        + (row % mask.shape(2)) * mask.stride(2)
        + key * mask.stride(3);
    mask[index] != B::from_int(0)
}

#[cube]
pub(super) fn kept(draw: &Draw, part: u32, index: usize, #[comptime] layout: Layout) -> f32 {
    let mut scale = 1.0f32;
    if comptime!(layout.has_dropout) {
        scale = scale_at(draw, part, index as u32);
    }
    scale
}

/// Brings rows of a head to the cube.
#[cube]
pub(super) fn load<T: Float, N: Size>(
    rows: &[Vector<T, N>],
    to: &mut Shared<[Vector<f32, N>]>,
    #[comptime] start: usize,
    place: &Place,
    first: usize,
    len: usize,
    #[comptime] layout: Layout,
) {
    let width = comptime!(layout.head);
    let mut at = UNIT_POS as usize;
    while at < comptime!(layout.block * layout.head) {
        let row = first + at / width;
        if row < len {
            let from = (place.batch * len + row) * comptime!(layout.key_width)
                + start
                + place.head * width
                + at % width;
            to[at] = Vector::cast_from(rows[from]);
        }
        at += comptime!(layout.block);
    }
}

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

/// Adds a row so many times.
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
