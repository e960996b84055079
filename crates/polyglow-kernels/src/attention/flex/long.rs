//! Attention over long rows, a block of queries at a time, without keeping the weights.
//!
//! The formulas are those of [`crate::attention`]. A block is [`BLOCK`] queries of a head and the
//! keys up to the last one that any of them may attend to. Forward, its weights,
//! `[num_queries, num_keys]`, are computed into a buffer, multiplied by the values, and overwritten
//! by the next block. The backward pass computes them again, then adds the block's part to `dK` and
//! `dV`, and writes its rows of `dQ`.
//!
//! So memory grows with the length and not with its square, the buffer stays in a core's cache, and
//! blocks of keys beyond a causal mask cost nothing. In return the backward pass has five products
//! instead of four.
//!
//! Dropout draws the same masks as with weights that are kept: an element's index in the mask is
//! that in the whole `[query_len, key_len]` matrix of the head.

use super::backward::{BackwardInput, Gradients};
use super::dropping::Dropping;
use super::heads::{Row, Sizes};
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::{Softmax, SoftmaxBackward};
use crate::flex::vector::vectorized;

/// Rows with at least this many keys are long; below it is faster to keep the weights. From about
/// 256 keys on, blocks gain more than the second computation of the weights costs
/// (docs/notes/performance.md).
pub(super) const LONG: usize = 256;
/// The most queries in a block: with 1 024 keys their weights take 256 KiB, which stay in a core's
/// second-level cache.
const BLOCK: usize = 64;

/// A block of queries of a head, with the number of keys, from the first on, that any of them may
/// attend to.
#[derive(Clone, Copy)]
struct Block<'a> {
    head: usize,
    first_query: usize,
    num_queries: usize,
    num_keys: usize,
    /// All keys of the head, as many as a row of the mask has; `num_keys` is at most this.
    key_len: usize,
    /// Rows of the attention mask, one for each query or one for all.
    forbidden: &'a [bool],
    /// The mask of dropout of the head.
    mask: Option<Mask>,
}

/// Buffers for the weights of a block, before dropout and after.
struct Buffers {
    /// Room for [`BLOCK`] queries by all keys.
    weights: Vec<f32>,
    /// Empty without dropout.
    dropped: Vec<f32>,
}

impl Sizes {
    /// Writes the output of a batch row, `[query_len, d_model]`; `mask` is the row's mask of
    /// dropout.
    pub(super) fn forward_long(&self, row: Row<'_>, mask: Option<Mask>, output: &mut [f32]) {
        let mut buffers = self.buffers(mask);
        for block in self.blocks(row.forbidden, mask) {
            self.weigh_block(row.query, row.key_value, block, &mut buffers);
            let values = self
                .head(row.key_value, self.value, block.head)
                .first_rows(block.num_keys);
            let output = &mut output[block.first_query * self.d_model()..];
            let output =
                self.joined_head_mut(output, self.query.with_len(block.num_queries), block.head);
            product_into(
                output,
                buffers.weights_after_dropout(block),
                values,
                1.0,
                Store::Overwrite,
            );
        }
    }

    /// [`Self::backward`] of long rows.
    pub(super) fn backward_long(&self, state: BackwardInput<'_>, mut grads: Gradients<'_>) {
        let BackwardInput {
            query,
            key_value,
            gradient,
            forbidden,
            mask,
            ..
        } = state;
        let d_model = self.d_model();
        let mut buffers = self.buffers(mask);
        let mut grad_scores = vec![0.0; BLOCK * self.key.len];
        for block in self.blocks(forbidden, mask) {
            let Block {
                head,
                first_query,
                num_queries,
                num_keys,
                ..
            } = block;
            self.weigh_block(query, key_value, block, &mut buffers);
            // A view of the rows of this block in the queries, the output and its gradient.
            let query_side = self.query.with_len(num_queries);
            let gradient = self.joined_head(&gradient[first_query * d_model..], query_side, head);
            // dV += Dᵀ G: every block of queries adds to the gradients of the same keys and values.
            let grad_values =
                self.head_mut(grads.grad_key_value(), self.value.with_len(num_keys), head);
            product_into(
                grad_values,
                buffers.weights_after_dropout(block).transposed(),
                gradient,
                1.0,
                Store::Accumulate,
            );
            // S' = G Vᵀ, and from it T in place.
            let grad_scores = &mut grad_scores[..num_queries * num_keys];
            let values = self.head(key_value, self.value, head).first_rows(num_keys);
            let grad_dropped = MatrixMut::strided(grad_scores, num_queries, num_keys, num_keys);
            product_into(
                grad_dropped,
                gradient,
                values.transposed(),
                1.0,
                Store::Overwrite,
            );
            let rows = grad_scores
                .chunks_exact_mut(num_keys)
                .zip(buffers.weights.chunks_exact(num_keys));
            // Row by row, because the rows of a block are not neighbors in the mask of dropout.
            for (query, (grads, weights)) in rows.enumerate() {
                let forbidden = block.forbidden(query);
                vectorized(SoftmaxBackward {
                    grads,
                    weights,
                    len: num_keys,
                    forbidden,
                    mask: block.mask,
                    first: block.mask_index(query),
                });
            }
            let grad_scores = Matrix::new(grad_scores, num_queries, num_keys);
            let queries = self.head(&query[first_query * query_side.width..], query_side, head);
            // dQ = T K / sqrt(head_dim): these queries are in no other block, so nothing is added.
            let grad_queries = self.head_mut(
                &mut grads.grad_query()[first_query * query_side.width..],
                query_side,
                head,
            );
            let key_side = self.key.with_len(num_keys);
            let keys = self.head(key_value, self.key, head).first_rows(num_keys);
            product_into(
                grad_queries,
                grad_scores,
                keys,
                self.scale(),
                Store::Overwrite,
            );
            // dK += Tᵀ Q / sqrt(head_dim)
            let grad_keys = self.head_mut(grads.grad_key_value(), key_side, head);
            product_into(
                grad_keys,
                grad_scores.transposed(),
                queries,
                self.scale(),
                Store::Accumulate,
            );
        }
    }

    /// Buffers that are large enough for any block.
    fn buffers(&self, mask: Option<Mask>) -> Buffers {
        let size = BLOCK * self.key.len;
        Buffers {
            weights: vec![0.0; size],
            dropped: vec![0.0; if mask.is_some() { size } else { 0 }],
        }
    }

    /// All blocks of a batch row, head by head; `mask` is the row's mask of dropout.
    fn blocks<'a>(
        &self,
        forbidden: &'a [bool],
        mask: Option<Mask>,
    ) -> impl Iterator<Item = Block<'a>> {
        let len = self.query.len;
        let key_len = self.key.len;
        // The blocks of head 0. Those of the others differ from them in the mask of dropout alone.
        let mut blocks = Vec::new();
        for first_query in (0..len).step_by(BLOCK) {
            let num_queries = BLOCK.min(len - first_query);
            let one_for_all = forbidden.len() == key_len;
            let forbidden = if one_for_all {
                forbidden
            } else {
                &forbidden[first_query * key_len..][..num_queries * key_len]
            };
            blocks.push(Block {
                head: 0,
                first_query,
                num_queries,
                num_keys: reach(forbidden, key_len),
                key_len,
                forbidden,
                mask: None,
            });
        }
        (0..self.num_heads).flat_map(move |head| {
            let mask = mask.map(|mask| mask.part(head));
            let of_head = move |block| Block {
                head,
                mask,
                ..block
            };
            blocks.clone().into_iter().map(of_head)
        })
    }

    /// Computes the weights of a block, `[num_queries, num_keys]`, before dropout and after.
    fn weigh_block(
        &self,
        query: &[f32],
        key_value: &[f32],
        block: Block<'_>,
        buffers: &mut Buffers,
    ) {
        let Block {
            head,
            first_query,
            num_queries,
            num_keys,
            ..
        } = block;
        // The rows of the buffer are as long as the block's keys, so that they are contiguous.
        let weights = &mut buffers.weights[..num_queries * num_keys];
        let scores = MatrixMut::strided(weights, num_queries, num_keys, num_keys);
        let queries = self.head(
            &query[first_query * self.query.width..],
            self.query.with_len(num_queries),
            head,
        );
        let keys = self.head(key_value, self.key, head).first_rows(num_keys);
        product_into(
            scores,
            queries,
            keys.transposed(),
            self.scale(),
            Store::Overwrite,
        );
        for (query, weights) in weights.chunks_exact_mut(num_keys).enumerate() {
            vectorized(Softmax {
                rows: weights,
                len: num_keys,
                forbidden: block.forbidden(query),
            });
        }
        // A copy: the backward pass needs the weights before dropout as well.
        let Some(mask) = block.mask else { return };
        let rows = buffers
            .dropped
            .chunks_exact_mut(num_keys)
            .zip(buffers.weights.chunks_exact(num_keys))
            .take(num_queries);
        for (query, (output, input)) in rows.enumerate() {
            vectorized(Dropping {
                output,
                input,
                mask,
                first: block.mask_index(query),
            });
        }
    }
}

/// The number of keys, from the first on, that any of these rows of the mask may attend to.
fn reach(forbidden: &[bool], key_len: usize) -> usize {
    let mut num_keys = 0;
    for row in forbidden.chunks_exact(key_len) {
        let last = row.iter().rposition(|forbidden| !forbidden);
        // A query to which everything is forbidden weighs all keys alike.
        num_keys = num_keys.max(last.map_or(key_len, |last| last + 1));
    }
    num_keys
}

impl<'a> Block<'a> {
    /// The row of the attention mask of a query of the block, as far as the keys of the block.
    fn forbidden(&self, query: usize) -> &'a [bool] {
        // 1 if all queries share a row of the mask.
        let rows = self.forbidden.len() / self.key_len;
        &self.forbidden[query % rows * self.key_len..][..self.num_keys]
    }

    /// The index in the mask of dropout of the first weight of a query of the block: that among all
    /// weights of the head.
    fn mask_index(&self, query: usize) -> u32 {
        ((self.first_query + query) * self.key_len) as u32
    }
}

impl Buffers {
    /// The weights that values are averaged by, after dropout if there is any.
    fn weights_after_dropout(&self, block: Block<'_>) -> Matrix<'_> {
        let values = if block.mask.is_some() {
            &self.dropped
        } else {
            &self.weights
        };
        Matrix::new(
            &values[..block.num_queries * block.num_keys],
            block.num_queries,
            block.num_keys,
        )
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};

    use super::super::heads::Forbidden;
    use super::*;
    use crate::Dropped;
    use crate::flex::tests::{assert_near, elements, random};

    #[test]
    fn blocks_give_what_kept_weights_give_with_the_same_dropout() {
        let len = 150;
        let heads = 2;
        let d_model = 12;
        let qkv = elements(random([1, len, 3 * d_model], 2.0));
        let gradient = elements(random([1, len, d_model], 2.0));
        let sizes = Sizes::for_self([1, len, 3 * d_model], heads);
        for causal in [false, true] {
            // Padding behind, and with `causal` the future; one row for all queries where it is the
            // same for all.
            let rows = if causal { len } else { 1 };
            let forbidden = |index: usize| index % len > 140 || causal && index % len > index / len;
            let mask = TensorData::new((0..rows * len).map(forbidden).collect(), [1, 1, rows, len]);
            let forbidden = Forbidden::new(&Tensor::from_data(mask, &Device::flex()), &sizes);
            for dropped in [None, Some(Dropped { keep: 0.7, key: 5 })] {
                let (expected, weights) = sizes.forward(&qkv, &qkv, &forbidden, dropped);
                let mut output = vec![0.0; expected.len()];
                let mask = dropped.map(|dropped| Mask::new(dropped).part(0));
                sizes.forward_long(sizes.row(&qkv, &qkv, &forbidden, 0), mask, &mut output);
                assert_near(&output, &expected, 1e-5);
                let gradient = &*gradient;
                let forbidden = forbidden.row(0);
                let state = BackwardInput {
                    query: &qkv,
                    key_value: &qkv,
                    weights: &weights,
                    gradient,
                    forbidden,
                    mask,
                };
                let [mut actual, mut expected] = [(); 2].map(|()| vec![0.0; qkv.len()]);
                sizes.backward_long(
                    BackwardInput {
                        weights: &[],
                        ..state
                    },
                    Gradients::Joined(&mut actual),
                );
                sizes.backward(state, Gradients::Joined(&mut expected));
                assert_near(&actual, &expected, 1e-5);
            }
        }
    }
}
