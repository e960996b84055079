//! The kernel of a search: a few queries look at many keys by dot products, one head after the other. Setting up a matrix
//! product would take longer than these sums.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use crate::flex::softmax::Softmax;
use crate::flex::vector::{Kernel, dot, vectorized};
use crate::flex::{Mode, close, from_values, mode, mode_of_both, read};

/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// `Some` if there is a kernel for what is on this tensor's device.
pub(crate) fn has_kernel(tensor: &Tensor<3>) -> Option<()> {
    (mode(tensor)? == Mode::Inference).then_some(())
}

/// [`super::cached_attention`] on flex without autodiff.
pub(crate) fn cached_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: Option<&Tensor<4, Bool>>,
    num_heads: usize,
) -> Option<Tensor<3>> {
    if mode_of_both(query, key_value) != Some(Mode::Inference) {
        return None;
    }
    let [batch, query_len, query_width] = query.dims();
    let [_, key_len, width] = key_value.dims();
    let d_model = width / 2;
    assert_eq!((key_value.dims()[0], width % 2, d_model % num_heads), (batch, 0, 0), "the heads of cached attention");
    assert!(query_width >= d_model, "the queries of cached attention");
    let ((query, _), (key_value, _)) = (read(query.clone()), read(key_value.clone()));
    let forbidden = forbidden_keys(mask, batch, key_len);
    let sizes = Sizes { num_heads, head_dim: d_model / num_heads, query_width, key_len };
    let mut output = vec![0.0; batch * query_len * d_model];
    let attend = |(row, output): (usize, &mut [f32])| {
        // One mask for all rows, or one for each.
        let start = if forbidden.len() == key_len { 0 } else { row * key_len };
        vectorized(Attend {
            sizes,
            queries: &query.slice()[row * query_len * query_width..][..query_len * query_width],
            keys_values: &key_value.slice()[row * key_len * width..][..key_len * width],
            forbidden: &forbidden[start..start + key_len],
            weights: &mut vec![0.0; key_len],
            output,
        });
    };
    let of_row = (query_len * d_model).max(1);
    if batch * query_len * key_len * d_model < PARALLEL {
        output.chunks_mut(of_row).enumerate().for_each(attend);
    } else {
        output.par_chunks_mut(of_row).enumerate().for_each(attend);
    }
    Some(close(from_values(output, [batch, query_len, d_model])))
}

/// `[rows or 1, key_len]`.
fn forbidden_keys(mask: Option<&Tensor<4, Bool>>, batch: usize, key_len: usize) -> Vec<bool> {
    let Some(mask) = mask else { return vec![false; key_len] };
    let [rows, heads, queries, keys] = mask.dims();
    assert!((heads, queries, keys) == (1, 1, key_len) && (rows == 1 || rows == batch), "the mask of a cache");
    mask.clone().into_data().iter::<bool>().collect()
}

#[derive(Clone, Copy)]
struct Sizes {
    num_heads: usize,
    head_dim: usize,
    /// Elements from one query to the next.
    query_width: usize,
    key_len: usize,
}

/// The queries of one row.
struct Attend<'a> {
    sizes: Sizes,
    /// `[query_len, query_width]`, of which the first `d_model` elements count.
    queries: &'a [f32],
    /// `[key_len, 2 * d_model]`, keys and values side by side.
    keys_values: &'a [f32],
    forbidden: &'a [bool],
    /// Room for the weights of one head, `[key_len]`.
    weights: &'a mut [f32],
    /// `[query_len, d_model]`.
    output: &'a mut [f32],
}

impl Kernel for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { sizes: Sizes { num_heads, head_dim, query_width, key_len }, .. } = self;
        let d_model = num_heads * head_dim;
        let scale = (head_dim as f32).powf(-0.5);
        let rows = self.queries.chunks_exact(query_width).zip(self.output.chunks_exact_mut(d_model));
        for (query, output) in rows {
            for head in 0..num_heads {
                let range = head * head_dim..(head + 1) * head_dim;
                let (query, output) = (&query[range.clone()], &mut output[range.clone()]);
                for (weight, pair) in self.weights.iter_mut().zip(self.keys_values.chunks_exact(2 * d_model)) {
                    *weight = dot(query, &pair[range.clone()]) * scale;
                }
                Softmax { rows: &mut *self.weights, len: key_len, forbidden: self.forbidden }.run();
                // Key by key, so that forbidden keys at the end, whose weight is 0, add nothing and change no bit.
                for (weight, pair) in self.weights.iter().zip(self.keys_values.chunks_exact(2 * d_model)) {
                    let value = &pair[d_model..][range.clone()];
                    output.iter_mut().zip(value).for_each(|(output, value)| *output += weight * value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData};

    use super::super::tests::plain;
    use super::*;
    use crate::flex::tests::{assert_near, numbers};

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        Tensor::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex())
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (batch, query_len, key_len, d_model) in [(2, 1, 1, 4), (3, 4, 7, 6), (2, 1, 33, 32), (40, 5, 41, 64)] {
            let (query, key_value) = (random([batch, query_len, 3 * d_model]), random([batch, key_len, 2 * d_model]));
            let forbidden: Vec<bool> =
                (0..batch * key_len).map(|place| place % key_len > 0 && place % (key_len + 2) == 1).collect();
            let mask = TensorData::new(forbidden, [batch, 1, 1, key_len]);
            let mask = Tensor::<4, Bool>::from_data(mask, &Device::flex());
            let open = Tensor::<4, Bool>::from_data(
                TensorData::new(vec![false; key_len], [1, 1, 1, key_len]),
                &Device::flex(),
            );
            let part = |place: usize| key_value.clone().narrow(2, place * d_model, d_model);
            for (mask, plain_mask) in [(Some(&mask), &mask), (None, &open)] {
                let output = cached_attention(&query, &key_value, mask, 2).expect("the kernel is there");
                let expected = plain(query.clone().narrow(2, 0, d_model), part(0), part(1), plain_mask);
                assert_near(&numbers(output), &numbers(expected), 1e-5);
            }
        }
    }
}
