//! Attention on Burn's CPU backend Flex, with autodiff and without: one task for each element of
//! the batch.
//!
//! The formulas and the layout are those of [`crate::attention`]. The output columns of the heads
//! of an element interleave, so that threads could not borrow them apart: the heads of an element
//! are processed one after the other on one core ([`heads`]), and a batch of one uses one core. The
//! scores of a head, `[query_len, key_len]`, stay in the core's cache between the two products and
//! the softmax.
//!
//! Of the intermediate matrices the forward pass keeps only the attention weights (the
//! probabilities), and the backward pass ([`backward`]) recomputes the mask of dropout. From
//! [`long::LONG`] keys on, [`long`] keeps nothing and computes the weights again, a block of
//! queries at a time; with fewer keys it is faster to keep them. A search has another kernel, for
//! few queries and many keys ([`cached`]).

mod backward;
mod cached;
mod dropping;
mod heads;
mod long;

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use backward::{BackwardInput, Gradients};
pub(super) use cached::{append, cached_attention, has_kernel};
use heads::{Forbidden, Side, Sizes, row_of};

use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, close, from_values, mode, mode_of_both, read,
    record,
};

/// [`super::self_attention`] on Flex. `None` makes the caller compute it by Burn's operations: on
/// other devices, and where autodiff needs more than the gradient of the output.
pub(super) fn self_attention(
    qkv: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let mode = mode(qkv)?;
    // Dropout belongs to training: the kernel for inference does not implement it.
    if mode == Mode::Inference && dropped.is_some() {
        return None;
    }
    let sizes = Sizes::for_self(qkv.dims(), num_heads);
    let (qkv, node) = read(qkv.clone());
    let forbidden = Forbidden::new(mask, &sizes);
    if mode == Mode::Inference {
        let output = sizes.infer(qkv.slice(), qkv.slice(), &forbidden);
        return Some(close(from_values(output, sizes.output_shape())));
    }
    let (output, weights) = sizes.forward(qkv.slice(), qkv.slice(), &forbidden, dropped);
    let backward = SelfAttentionBackward {
        saved: Saved {
            sizes,
            weights,
            forbidden,
            dropped,
        },
        qkv,
    };
    Some(record(
        backward,
        [node],
        from_values(output, sizes.output_shape()),
    ))
}

/// [`super::cross_attention`] on Flex; `None` as in [`self_attention`], and where one of the inputs
/// has a gradient and the other has none.
pub(super) fn cross_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let mode = mode_of_both(query, key_value)?;
    if mode == Mode::Inference && dropped.is_some() {
        return None;
    }
    let sizes = Sizes::for_cross(query.dims(), key_value.dims(), num_heads);
    let (query, query_node) = read(query.clone());
    let (key_value, key_value_node) = read(key_value.clone());
    let forbidden = Forbidden::new(mask, &sizes);
    if mode == Mode::Inference {
        let output = sizes.infer(query.slice(), key_value.slice(), &forbidden);
        return Some(close(from_values(output, sizes.output_shape())));
    }
    let (output, weights) = sizes.forward(query.slice(), key_value.slice(), &forbidden, dropped);
    let backward = CrossAttentionBackward {
        saved: Saved {
            sizes,
            weights,
            forbidden,
            dropped,
        },
        query,
        key_value,
    };
    Some(record(
        backward,
        [query_node, key_value_node],
        from_values(output, sizes.output_shape()),
    ))
}

/// The data that the forward pass keeps for the gradients, apart from the projections.
#[derive(Clone, Debug)]
struct Saved {
    sizes: Sizes,
    /// `[batch, num_heads, query_len, key_len]`, before dropout, whose mask is recomputed; empty
    /// with [`long::LONG`] keys or more.
    weights: Vec<f32>,
    forbidden: Forbidden,
    dropped: Option<Dropped>,
}

impl Saved {
    /// The slices of the projections, of what was saved and of the gradient that belong to one
    /// element of the batch.
    fn element<'a>(
        &'a self,
        row: usize,
        query: &'a Contiguous,
        key_value: &'a Contiguous,
        gradient: &'a Contiguous,
    ) -> BackwardInput<'a> {
        BackwardInput {
            query: row_of(query.slice(), row, self.sizes.query),
            key_value: row_of(key_value.slice(), row, self.sizes.key),
            weights: self.sizes.weights_row(&self.weights, row),
            gradient: self.sizes.output_row(gradient.slice(), row),
            forbidden: self.forbidden.row(row),
            mask: self.dropped.map(|dropped| Mask::new(dropped).part(row)),
        }
    }
}

/// The backward pass of [`self_attention`].
#[derive(Clone, Debug)]
struct SelfAttentionBackward {
    saved: Saved,
    /// The projection, `[batch, len, 3 * d_model]`.
    qkv: Contiguous,
}

impl BackwardPass<1> for SelfAttentionBackward {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { saved, qkv } = self;
        let sizes = saved.sizes;
        let gradient = Contiguous::new(gradient);
        let Sizes {
            batch,
            query: Side { len, width, .. },
            ..
        } = sizes;
        // Zeros, because long rows add to the gradients of keys and values.
        let mut grad_qkv = vec![0.0; batch * len * width];
        grad_qkv
            // A chunk may not be empty, as that of an empty batch would be.
            .par_chunks_mut((len * width).max(1))
            .enumerate()
            .for_each(|(row, grad_qkv)| {
                sizes.backward(
                    saved.element(row, &qkv, &qkv, &gradient),
                    Gradients::Joined(grad_qkv),
                );
            });
        [Some(from_values(grad_qkv, [batch, len, width]))]
    }
}

/// The backward pass of [`cross_attention`].
#[derive(Clone, Debug)]
struct CrossAttentionBackward {
    saved: Saved,
    /// `[batch, query_len, d_model]`.
    query: Contiguous,
    /// `[batch, key_len, 2 * d_model]`.
    key_value: Contiguous,
}

impl BackwardPass<2> for CrossAttentionBackward {
    fn gradients(self, gradient: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let Self {
            saved,
            query,
            key_value,
        } = self;
        let sizes = saved.sizes;
        let gradient = Contiguous::new(gradient);
        let Sizes {
            batch,
            query: query_side,
            key: key_side,
            ..
        } = sizes;
        let mut grad_query_all = vec![0.0; batch * query_side.len * query_side.width];
        let mut grad_key_value_all = vec![0.0; batch * key_side.len * key_side.width];
        let rows = grad_query_all
            .par_chunks_mut((query_side.len * query_side.width).max(1))
            .zip(grad_key_value_all.par_chunks_mut((key_side.len * key_side.width).max(1)))
            .enumerate();
        rows.for_each(|(row, (grad_query, grad_key_value))| {
            let grads = Gradients::Separate {
                query: grad_query,
                key_value: grad_key_value,
            };
            sizes.backward(saved.element(row, &query, &key_value, &gradient), grads);
        });
        [
            Some(from_values(
                grad_query_all,
                [batch, query_side.len, query_side.width],
            )),
            Some(from_values(
                grad_key_value_all,
                [batch, key_side.len, key_side.width],
            )),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::FORBIDDEN;
    use burn::tensor::activation::softmax;
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, random, random_tracked, with_autodiff,
    };

    const HEADS: usize = 2;

    /// Attention in terms of Burn's operations.
    pub(super) fn plain(
        query: Tensor<3>,
        key: Tensor<3>,
        value: Tensor<3>,
        mask: &Tensor<4, Bool>,
    ) -> Tensor<3> {
        let [batch, len, d_model] = query.dims();
        let other_len = key.dims()[1];
        let scores = split_heads(query).matmul(split_heads(key).transpose())
            * ((d_model / HEADS) as f64).powf(-0.5);
        let scores = scores.mask_fill(
            mask.clone().expand([batch, HEADS, len, other_len]),
            f64::from(FORBIDDEN),
        );
        softmax(scores, 3)
            .matmul(split_heads(value))
            .swap_dims(1, 2)
            .reshape([batch, len, d_model])
    }

    /// `[batch, HEADS, len, head_dim]`.
    fn split_heads(tensor: Tensor<3>) -> Tensor<4> {
        let [batch, len, d_model] = tensor.dims();
        tensor
            .reshape([batch, len, HEADS, d_model / HEADS])
            .swap_dims(1, 2)
    }

    /// One of the projections that lie side by side.
    fn projection(all: &Tensor<3>, index: usize, d_model: usize) -> Tensor<3> {
        all.clone().narrow(2, index * d_model, d_model)
    }

    /// Forbids the last position of the second element of the batch, and with `causal` the future,
    /// and for the first query every key: [`FORBIDDEN`] is finite, so that the weights of such a
    /// query are equal, and not NaN.
    fn mask(len: usize, other_len: usize, causal: bool) -> Tensor<4, Bool> {
        let rows = if causal { len } else { 1 };
        let mut values = Vec::new();
        for batch_row in 0..2 {
            for row in 0..rows {
                for column in 0..other_len {
                    let is_padding = batch_row == 1 && column + 1 == other_len;
                    values.push(is_padding || causal && (column > row || row == 0));
                }
            }
        }
        Tensor::from_data(
            TensorData::new(values, [2, 1, rows, other_len]),
            &Device::flex().autodiff(),
        )
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last two have `LONG` keys or more. Their queries are a whole number of blocks, and
        // not; the last has more queries than keys.
        for (len, other_len, d_model) in [
            (1, 2, 4),
            (5, 3, 6),
            (19, 33, 32),
            (256, 300, 4),
            (331, 260, 8),
        ] {
            let qkv = random_tracked([2, len, 3 * d_model], 2.0);
            let upstream = with_autodiff(&random([2, len, d_model], 2.0));
            let forbidden = mask(len, len, true);
            let [query, key, value] = [0, 1, 2].map(|index| projection(&qkv, index, d_model));
            let kernel =
                self_attention(&qkv, &forbidden, HEADS, None).expect("the kernel is there");
            let outputs = [kernel, plain(query, key, value, &forbidden)];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                [elements(output), gradient_of(&qkv, &gradients)]
            });
            for (kernel, plain_version) in kernel.iter().zip(&plain_version) {
                assert_near(kernel, plain_version, 1e-5);
            }

            let query = random_tracked([2, len, d_model], 2.0);
            let key_value = random_tracked([2, other_len, 2 * d_model], 2.0);
            let forbidden = mask(len, other_len, false);
            let [key, value] = [0, 1].map(|index| projection(&key_value, index, d_model));
            let kernel = cross_attention(&query, &key_value, &forbidden, HEADS, None)
                .expect("the kernel is there");
            let outputs = [kernel, plain(query.clone(), key, value, &forbidden)];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                [
                    elements(output),
                    gradient_of(&query, &gradients),
                    gradient_of(&key_value, &gradients),
                ]
            });
            for (kernel, plain_version) in kernel.iter().zip(&plain_version) {
                assert_near(kernel, plain_version, 1e-5);
            }
        }
    }
}
