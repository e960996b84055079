//! The backward pass of [`super::kernel`].

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::kernel::{
    Layout, Place, Sizes, add, clamp_max, dot, is_forbidden, is_open, kept, load, place,
};
use crate::attention::FORBIDDEN;
use crate::dropout::gpu::draw::Draw;
use crate::gpu::vector::{sum, write, zeros};

/// What a unit knows of a row of queries.
#[derive(CubeType)]
struct Row<N: Size> {
    query: Array<Vector<f32, N>>,
    /// Of the output.
    slope: Array<Vector<f32, N>>,
    /// `rowsum(slope * output)`, which is that of weights and their slopes.
    mean: f32,
    largest: f32,
    /// One over the sum of weights.
    norm: f32,
}

#[cube]
fn row<T: Float, N: Size>(
    query: &[Vector<T, N>],
    output: &[Vector<T, N>],
    norms: &[f32],
    slope: &[Vector<T, N>],
    place: &Place,
    row: usize,
    query_len: usize,
    #[comptime] layout: Layout,
) -> Row<N> {
    let width = comptime!(layout.head);
    let mut of_query = Array::<Vector<f32, N>>::new(width);
    let mut of_output = Array::<Vector<f32, N>>::new(width);
    let mut means = Vector::<f32, N>::new(0.0f32);
    let mut largest = 0.0f32;
    let mut norm = 0.0f32;
    if row < query_len {
        let at = place.batch * query_len + row;
        let start = at * comptime!(layout.query_width) + place.head * width;
        let out_start = at * comptime!(layout.num_heads * width) + place.head * width;
        #[unroll]
        for i in 0..width {
            of_query[i] = Vector::cast_from(query[start + i]);
            of_output[i] = Vector::cast_from(slope[out_start + i]);
            means += of_output[i] * Vector::cast_from(output[out_start + i]);
        }
        let at = 2 * ((place.batch * comptime!(layout.num_heads) + place.head) * query_len + row);
        largest = norms[at];
        norm = norms[at + 1];
    }
    Row::<N> {
        query: of_query,
        slope: of_output,
        mean: sum::<N>(means),
        largest,
        norm,
    }
}

/// The weight after dropout of a key, and the slope of its score times what it is scaled by.
#[cube]
fn weight<B: Int, N: Size>(
    own: &Row<N>,
    keys: &Shared<[Vector<f32, N>]>,
    values: &Shared<[Vector<f32, N>]>,
    mask: &Tensor<B>,
    place: &Place,
    query: usize,
    key: usize,
    j: usize,
    sizes: &Sizes,
    draw: &Draw,
    #[comptime] layout: Layout,
) -> (f32, f32) {
    let width = comptime!(layout.head);
    let forbidden = is_forbidden::<B>(mask, place.batch, query, key);
    let score = select(
        forbidden,
        f32::new(FORBIDDEN),
        dot::<N>(&own.query, keys, j * width, width) * sizes.scale,
    );
    let weight = (score - own.largest).exp() * own.norm;
    let kept = kept(
        draw,
        place.part,
        query * sizes.key_len as usize + key,
        layout,
    );
    let slope =
        weight * (dot::<N>(&own.slope, values, j * width, width) * kept - own.mean) * sizes.scale;
    (weight * kept, select(forbidden, 0.0f32, slope))
}

/// Those of queries, where there are too many keys for [`of_keys`] to have them.
#[cube(launch)]
pub(super) fn of_queries<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &[Vector<T, N>],
    norms: &[f32],
    slope: &[Vector<T, N>],
    of_query: &mut [Vector<T, N>],
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
    let at = place.first + UNIT_POS as usize;
    let has_row = at < query_len;
    let mut keys = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    let own = row::<T, N>(query, output, norms, slope, &place, at, query_len, layout);
    let mut sums = zeros::<N>(width);
    let mut first = 0usize;
    while first < key_len {
        if is_open::<B>(
            mask,
            &mut open_rows,
            place.batch,
            at,
            first,
            key_len,
            has_row,
            false,
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
                for j in 0..clamp_max(key_len - first, block) {
                    let key = first + j;
                    let (_, slope) = weight::<B, N>(
                        &own, &keys, &values, mask, &place, at, key, j, &sizes, &draw, layout,
                    );
                    add::<N>(&mut sums, slope, &keys, j * width, width);
                }
            }
        }
        first += block;
    }
    if has_row {
        let start =
            (place.batch * query_len + at) * comptime!(layout.query_width) + place.head * width;
        write::<T, N>(of_query, start, &sums, width);
    }
}

/// Those of keys and values, and of queries where keys are one block.
#[cube(launch)]
pub(super) fn of_keys<T: Float, B: Int, N: Size>(
    query: &[Vector<T, N>],
    key_value: &[Vector<T, N>],
    mask: &Tensor<B>,
    output: &[Vector<T, N>],
    norms: &[f32],
    slope: &[Vector<T, N>],
    of_query: &mut [Vector<T, N>],
    of_key_value: &mut [Vector<T, N>],
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
    let unit = UNIT_POS as usize;
    // First keys and values, then queries and slopes.
    let mut left = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    let mut right = Shared::<[Vector<f32, N>]>::new_slice(comptime!(block * width));
    // By key and query; a row is longer than a block, so that units never write to the same bank.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut slopes = Shared::<[f32]>::new_slice(comptime!(block * (block + 1)));
    let mut open_rows = Shared::<[u32]>::new_slice(block);
    let mut of_key = zeros::<N>(width);
    let mut of_value = zeros::<N>(width);
    let key_len_here = clamp_max(key_len - place.first, block);
    let mut first = 0usize;
    while first < query_len {
        let at = first + unit;
        let has_row = at < query_len;
        let own = row::<T, N>(query, output, norms, slope, &place, at, query_len, layout);
        // A row where everything is forbidden gives its values slopes.
        let wanted = has_row && own.largest < comptime!(0.5 * FORBIDDEN);
        if is_open::<B>(
            mask,
            &mut open_rows,
            place.batch,
            at,
            place.first,
            key_len,
            has_row,
            wanted,
            layout,
        ) {
            load::<T, N>(
                key_value,
                &mut left,
                comptime!(layout.key_start),
                &place,
                place.first,
                key_len,
                layout,
            );
            load::<T, N>(
                key_value,
                &mut right,
                comptime!(layout.value_start),
                &place,
                place.first,
                key_len,
                layout,
            );
            sync_cube();
            if has_row {
                let mut of_own = zeros::<N>(width);
                for j in 0..key_len_here {
                    let key = place.first + j;
                    let (weight, slope) = weight::<B, N>(
                        &own, &left, &right, mask, &place, at, key, j, &sizes, &draw, layout,
                    );
                    weights[j * comptime!(block + 1) + unit] = weight;
                    slopes[j * comptime!(block + 1) + unit] = slope;
                    if comptime!(!layout.many) {
                        add::<N>(&mut of_own, slope, &left, j * width, width);
                    }
                }
                if comptime!(!layout.many) {
                    let start = (place.batch * query_len + at) * comptime!(layout.query_width)
                        + place.head * width;
                    if comptime!(layout.is_self) {
                        write::<T, N>(of_key_value, start, &of_own, width);
                    } else {
                        write::<T, N>(of_query, start, &of_own, width);
                    }
                }
            }
            sync_cube();
            #[unroll]
            for i in 0..width {
                left[unit * width + i] = own.query[i];
                right[unit * width + i] = own.slope[i];
            }
            sync_cube();
            if unit < key_len_here {
                for i in 0..clamp_max(query_len - first, block) {
                    let at = unit * comptime!(block + 1) + i;
                    add::<N>(&mut of_key, slopes[at], &left, i * width, width);
                    add::<N>(&mut of_value, weights[at], &right, i * width, width);
                }
            }
        }
        first += block;
    }
    if unit < key_len_here {
        let row = (place.batch * key_len + place.first + unit) * comptime!(layout.key_width)
            + place.head * width;
        write::<T, N>(
            of_key_value,
            row + comptime!(layout.key_start),
            &of_key,
            width,
        );
        write::<T, N>(
            of_key_value,
            row + comptime!(layout.value_start),
            &of_value,
            width,
        );
    }
}
