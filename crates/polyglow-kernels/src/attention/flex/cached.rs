//! Attention in a search: `softmax(q Kᵀ / sqrt(head_dim)) V` for a few queries, usually one, and
//! all keys and values in a [`KeyValueCache`].
//!
//! With one query the two products are sums over vectors, and setting up a matrix product would
//! take longer than the sums themselves. So a task is a batch row; for each query and head it
//! computes
//! - the scores, one dot product for each key, reading the keys of the head from one end to the
//!   other;
//! - the softmax over them;
//! - the weighted sum of the values, some columns at a time whose sums stay in registers, reading
//!   the values from one end to the other.
//!
//! The weights of a head have a buffer of whole SIMD vectors; what lies beyond the keys has the
//! score minus infinity, so the weight 0. The bits of a row therefore depend on its own keys alone.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use crate::attention::cache::KeyValueCache;
use crate::flex::softmax::Softmax;
use crate::flex::vector::{Kernel, LANES, dot, vectorized};
use crate::flex::{Mode, close, from_values, mode, read};

/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// The room of a slot is a multiple of this number of positions once it has grown.
const ROOM: usize = 16;

/// `Some` if there is a kernel for this tensor's device and mode, which is flex without autodiff.
pub(crate) fn has_kernel(tensor: &Tensor<3>) -> Option<()> {
    (mode(tensor)? == Mode::Inference).then_some(())
}

/// [`KeyValueCache::append`] on flex without autodiff.
pub(crate) fn append(cache: &mut KeyValueCache, projected: &Tensor<3>) -> Option<()> {
    has_kernel(projected)?;
    let [rows, newest, width] = projected.dims();
    assert_eq!(rows, cache.rows(), "the rows of a cache");
    let (projected, _) = read(projected.clone());
    let start = cache.len;
    let len = cache.len + newest;
    let head_dim = cache.head_dim;
    if len > cache.room {
        // The first positions may be all that ever come, as those of a source are.
        let room = if start == 0 {
            len
        } else {
            // By half, so that over a whole search each position is copied only a few times.
            (len + len / 2).next_multiple_of(ROOM)
        };
        grow(cache, room);
    }
    cache.len = len;
    // A projection for self-attention begins with the queries.
    let skipped = width - 2 * cache.num_heads * head_dim;
    for (row, projected) in projected
        .slice()
        .chunks_exact((newest * width).max(1))
        .enumerate()
    {
        for part in 0..2 * cache.num_heads {
            // In the projection all keys come before all values; in a slot they alternate by heads.
            let column = skipped + (part % 2 * cache.num_heads + part / 2) * head_dim;
            let range = cache.part(cache.slots[row], part);
            let new = cache.elements[range][start * head_dim..].chunks_exact_mut(head_dim);
            for (new, projected) in new.zip(projected.chunks_exact(width)) {
                new.copy_from_slice(&projected[column..][..head_dim]);
            }
        }
    }
    Some(())
}

/// Copies the rows into slots with room for `room` positions, row `i` into slot `i`.
fn grow(cache: &mut KeyValueCache, room: usize) {
    let parts = 2 * cache.num_heads;
    let mut grown = vec![0.0; cache.rows() * parts * room * cache.head_dim];
    for (index, new) in grown.chunks_exact_mut(room * cache.head_dim).enumerate() {
        let slot = cache.slots[index / parts];
        let old = &cache.elements[cache.part(slot, index % parts)];
        new[..old.len()].copy_from_slice(old);
    }
    cache.elements = grown;
    cache.room = room;
    cache.slots = (0..cache.rows()).collect();
}

/// [`KeyValueCache::attention`] on flex without autodiff.
pub(crate) fn cached_attention(
    cache: &KeyValueCache,
    query: &Tensor<3>,
    mask: Option<&Tensor<4, Bool>>,
) -> Option<Tensor<3>> {
    has_kernel(query)?;
    let [batch, query_len, query_width] = query.dims();
    let key_len = cache.len;
    let d_model = cache.num_heads * cache.head_dim;
    assert_eq!(cache.rows(), batch, "the rows of cached attention");
    assert!(query_width >= d_model, "the queries of cached attention");
    let (query, _) = read(query.clone());
    let forbidden = forbidden_keys(mask, batch, key_len);
    let padded = key_len.next_multiple_of(LANES);
    let mut output = vec![0.0; batch * query_len * d_model];
    let row_len = (query_len * d_model).max(1);
    let attend = |row: usize, output: &mut [f32]| {
        // One mask for all rows, or one for each.
        let start = if forbidden.len() == padded {
            0
        } else {
            row * padded
        };
        vectorized(Attend {
            cache,
            slot: cache.slots[row],
            queries: &query.slice()[row * query_len * query_width..][..query_len * query_width],
            query_width,
            forbidden: &forbidden[start..start + padded],
            weights: &mut vec![0.0; padded],
            output,
        });
    };
    if batch * query_len * key_len * d_model < PARALLEL {
        for (row, output) in output.chunks_mut(row_len).enumerate() {
            attend(row, output);
        }
    } else {
        output
            .par_chunks_mut(row_len)
            .enumerate()
            .for_each(|(row, output)| attend(row, output));
    }
    Some(close(from_values(output, [batch, query_len, d_model])))
}

/// The mask as `[rows or 1, key_len]`, each row filled up with `false` to whole vectors.
fn forbidden_keys(mask: Option<&Tensor<4, Bool>>, batch: usize, key_len: usize) -> Vec<bool> {
    let padded = key_len.next_multiple_of(LANES);
    let Some(mask) = mask else {
        return vec![false; padded];
    };
    let [rows, heads, queries, keys] = mask.dims();
    assert!(
        (heads, queries, keys) == (1, 1, key_len) && (rows == 1 || rows == batch),
        "the mask of a cache"
    );
    let mut forbidden = vec![false; rows * padded];
    let data = mask.clone().into_data();
    let mut values = data.iter::<bool>();
    for row in forbidden.chunks_exact_mut(padded) {
        for (forbidden, value) in row[..key_len].iter_mut().zip(&mut values) {
            *forbidden = value;
        }
    }
    forbidden
}

/// The attention of the queries of one row.
struct Attend<'a> {
    cache: &'a KeyValueCache,
    /// The slot of the row in the cache.
    slot: usize,
    /// `[query_len, query_width]`, of which the first `d_model` elements are read.
    queries: &'a [f32],
    /// Elements from one query to the next.
    query_width: usize,
    /// The mask of the row, as long as `weights`.
    forbidden: &'a [bool],
    /// Room for the weights of one head, `key_len` filled up to whole vectors.
    weights: &'a mut [f32],
    /// `[query_len, d_model]`.
    output: &'a mut [f32],
}

impl Kernel for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let KeyValueCache {
            ref elements,
            num_heads,
            head_dim,
            len: key_len,
            ..
        } = *self.cache;
        // Forbidden keys at the end, as of padding, have the weight 0 and are left out: that
        // changes no bit. If everything is forbidden, all keys have the same weight and none is
        // left out.
        let len = self.forbidden[..key_len]
            .iter()
            .rposition(|forbidden| !forbidden)
            .map_or(key_len, |last| last + 1);
        let padded = len.next_multiple_of(LANES);
        let weights = &mut self.weights[..padded];
        let forbidden = &self.forbidden[..padded];
        let scale = (head_dim as f32).powf(-0.5);
        let queries = self.queries.chunks_exact(self.query_width);
        for (query, output) in queries.zip(self.output.chunks_exact_mut(num_heads * head_dim)) {
            let heads = query
                .chunks_exact(head_dim)
                .zip(output.chunks_exact_mut(head_dim));
            for (head, (query, output)) in heads.enumerate() {
                let [keys, values] =
                    [0, 1].map(|part| &elements[self.cache.part(self.slot, 2 * head + part)]);
                // q Kᵀ / sqrt(head_dim)
                let (scores, rest) = weights.split_at_mut(len);
                for (score, key) in scores.iter_mut().zip(keys.chunks_exact(head_dim)) {
                    *score = dot(query, key) * scale;
                }
                // The softmax goes over whole vectors; what is beyond the keys gets the weight 0.
                rest.fill(f32::NEG_INFINITY);
                Softmax {
                    rows: &mut *weights,
                    len: padded,
                    forbidden,
                }
                .run();
                // The output is zeros before: it becomes the weighted sum of the values.
                add_values(output, &weights[..len], values);
            }
        }
    }
}

/// Adds the values of a head times their weights to `output`, position by position.
#[inline(always)]
fn add_values(output: &mut [f32], weights: &[f32], values: &[f32]) {
    /// Columns whose sums registers hold: a head of 64 columns or fewer is read from one end to the
    /// other. WebAssembly has 16 registers of 4 elements.
    const WIDE: usize = if cfg!(target_arch = "wasm32") { 2 } else { 4 } * LANES;
    let head_dim = output.len();
    let (wide, rest) = output.as_chunks_mut::<WIDE>();
    let (chunks, last) = rest.as_chunks_mut::<LANES>();
    let mut start = 0;
    for sums in wide {
        add_columns(sums, weights, &values[start..], head_dim);
        start += WIDE;
    }
    for sums in chunks {
        add_columns(sums, weights, &values[start..], head_dim);
        start += LANES;
    }
    for (weight, values) in weights.iter().zip(values.chunks_exact(head_dim)) {
        for (sum, value) in last.iter_mut().zip(&values[start..]) {
            *sum += weight * value;
        }
    }
}

/// Adds `N` columns of values times their weights to `output`. The values of a position are
/// `head_dim` elements behind those of the position before.
#[inline(always)]
fn add_columns<const N: usize>(
    output: &mut [f32; N],
    weights: &[f32],
    values: &[f32],
    head_dim: usize,
) {
    // A copy, so that sums stay in registers: through `output` each position would wait until the
    // sums of the one before are written.
    let mut sums = *output;
    for (weight, values) in weights.iter().zip(values.chunks(head_dim)) {
        for (sum, value) in sums.iter_mut().zip(&values[..N]) {
            *sum += weight * value;
        }
    }
    *output = sums;
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Int, TensorData};

    use super::super::tests::plain;
    use super::*;
    use crate::flex::tests::{assert_near, elements, random};

    /// A cache of these keys and values.
    fn filled(key_value: &Tensor<3>) -> KeyValueCache {
        let mut cache = KeyValueCache::empty(key_value, key_value.dims()[2] / 2, 2)
            .expect("the kernel is there");
        cache.append(key_value);
        cache
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (batch, query_len, key_len, d_model) in [
            (2, 1, 1, 4),
            (3, 4, 7, 6),
            (2, 1, 33, 32),
            (2, 2, 9, 160),
            (3, 1, 9, 180),
            (40, 5, 41, 64),
        ] {
            let query = random([batch, query_len, 3 * d_model], 2.0);
            let key_value = random([batch, key_len, 2 * d_model], 2.0);
            let forbidden: Vec<bool> = (0..batch * key_len)
                .map(|index| index % key_len > 0 && index % (key_len + 2) == 1)
                .collect();
            let mask = TensorData::new(forbidden, [batch, 1, 1, key_len]);
            let mask = Tensor::<4, Bool>::from_data(mask, &Device::flex());
            let open = Tensor::<4, Bool>::from_data(
                TensorData::new(vec![false; key_len], [1, 1, 1, key_len]),
                &Device::flex(),
            );
            let key = key_value.clone().narrow(2, 0, d_model);
            let value = key_value.clone().narrow(2, d_model, d_model);
            for (mask, plain_mask) in [(Some(&mask), &mask), (None, &open)] {
                let cache = filled(&key_value);
                let output = cache.attention(&query, mask);
                let expected = plain(
                    query.clone().narrow(2, 0, d_model),
                    key.clone(),
                    value.clone(),
                    plain_mask,
                );
                assert_near(&elements(output), &elements(expected), 1e-5);
            }
        }
    }

    #[test]
    fn rows_that_come_go_and_split_are_those_of_tensors() {
        let d_model = 4;
        let first = random([3, 1, 3 * d_model], 2.0);
        let mut cache = filled(&first.clone().narrow(2, d_model, 2 * d_model));
        let mut steps = vec![first];
        // A beam opens, keeps some of its rows twice, ends in part, and grows beyond the room of
        // its slots.
        let choices: [&[usize]; 6] = [
            &[0, 0, 1, 1, 2, 2],
            &[1, 1, 2, 2, 2, 5],
            &[0, 3, 3],
            &[2, 0],
            &[0, 1],
            &[1],
        ];
        for rows in choices
            .into_iter()
            .chain(std::iter::repeat_n(&[0][..], 2 * ROOM))
        {
            let indices: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
            let indices = Tensor::<1, Int>::from_data(indices.as_slice(), &Device::flex());
            steps = steps
                .into_iter()
                .map(|step| step.select(0, indices.clone()))
                .collect();
            cache.select(rows);
            assert_eq!(cache.rows(), rows.len());
            let next = random([rows.len(), 1, 3 * d_model], 2.0);
            cache.append(&next);
            steps.push(next.clone());
            let actual = cache.attention(&next, None);
            let all = Tensor::cat(steps.clone(), 1);
            let whole = filled(&all.narrow(2, d_model, 2 * d_model));
            assert_eq!(elements(actual), elements(whole.attention(&next, None)));
        }
    }
}
