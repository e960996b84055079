//! Attention over long rows, a block of queries at a time, without keeping the weights.
//!
//! The formulas are those of [`crate::attention`]. A block is [`BLOCK`] queries of a head and the
//! keys up to the last one that any of them may attend to. Forward, its weights, `[queries, keys]`,
//! are computed into a buffer, multiplied by the values, and overwritten by the next block. The
//! backward pass computes them again, then adds the block's part to `dK` and `dV`, and writes its
//! rows of `dQ`.
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

/// Rows with at least this many keys are long; below it is faster to keep the weights.
pub(super) const LONG: usize = 256;
/// The most queries in a block.
const BLOCK: usize = 64;

/// A block of queries of a head, with the number of keys, from the first on, that any of them may
/// attend to.
#[derive(Clone, Copy)]
struct Block<'a> {
    head: usize,
    /// The first query.
    first: usize,
    queries: usize,
    keys: usize,
    /// The keys in a row of the mask.
    all_keys: usize,
    /// Rows of the attention mask, one for each query or one for all.
    forbidden: &'a [bool],
    /// The mask of dropout of the head.
    mask: Option<Mask>,
}

/// Buffers for the weights of a block, before dropout and after.
struct Buffers {
    weights: Vec<f32>,
    kept: Vec<f32>,
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
                .first_rows(block.keys);
            let output = &mut output[block.first * self.d_model()..];
            let output =
                self.joined_head_mut(output, self.query.with_len(block.queries), block.head);
            product_into(
                output,
                buffers.dropped(block),
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
                first,
                queries,
                keys,
                ..
            } = block;
            self.weigh_block(query, key_value, block, &mut buffers);
            // A view of the rows of this block in the queries, the output and its gradient.
            let own = self.query.with_len(queries);
            let gradient = self.joined_head(&gradient[first * d_model..], own, head);
            // dV += Dᵀ G: every block of queries adds to the gradients of the same keys and values.
            let grad_values =
                self.head_mut(grads.grad_key_value(), self.value.with_len(keys), head);
            product_into(
                grad_values,
                buffers.dropped(block).transposed(),
                gradient,
                1.0,
                Store::Accumulate,
            );
            // S' = G Vᵀ, and from it T in place.
            let grad_scores = &mut grad_scores[..queries * keys];
            let values = self.head(key_value, self.value, head).first_rows(keys);
            let grad_dropped = MatrixMut::strided(grad_scores, queries, keys, keys);
            product_into(
                grad_dropped,
                gradient,
                values.transposed(),
                1.0,
                Store::Overwrite,
            );
            let rows = grad_scores
                .chunks_exact_mut(keys)
                .zip(buffers.weights.chunks_exact(keys));
            // Row by row, because the rows of a block are not neighbors in the mask of dropout.
            for (query, (grads, weights)) in rows.enumerate() {
                let forbidden = block.forbidden(query);
                vectorized(SoftmaxBackward {
                    grads,
                    weights,
                    len: keys,
                    forbidden,
                    mask: block.mask,
                    first: block.mask_index(query),
                });
            }
            let grad_scores = Matrix::new(grad_scores, queries, keys);
            let queries = self.head(&query[first * own.width..], own, head);
            // dQ = T K / sqrt(head_dim): these queries are in no other block, so nothing is added.
            let grad_queries =
                self.head_mut(&mut grads.grad_query()[first * own.width..], own, head);
            let other = self.key.with_len(keys);
            let keys = self.head(key_value, self.key, head).first_rows(keys);
            product_into(
                grad_queries,
                grad_scores,
                keys,
                self.scale(),
                Store::Overwrite,
            );
            // dK += Tᵀ Q / sqrt(head_dim)
            let grad_keys = self.head_mut(grads.grad_key_value(), other, head);
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
            kept: vec![0.0; if mask.is_some() { size } else { 0 }],
        }
    }

    /// All blocks of a batch row, head by head; `mask` is the row's mask of dropout.
    fn blocks<'a>(
        &self,
        forbidden: &'a [bool],
        mask: Option<Mask>,
    ) -> impl Iterator<Item = Block<'a>> {
        let len = self.query.len;
        let all_keys = self.key.len;
        // The blocks of head 0. Those of the others differ from them in the mask of dropout alone.
        let mut blocks = Vec::new();
        for first in (0..len).step_by(BLOCK) {
            let queries = BLOCK.min(len - first);
            let one_for_all = forbidden.len() == all_keys;
            let forbidden = if one_for_all {
                forbidden
            } else {
                &forbidden[first * all_keys..][..queries * all_keys]
            };
            blocks.push(Block {
                head: 0,
                first,
                queries,
                keys: reach(forbidden, all_keys),
                all_keys,
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

    /// Computes the weights of a block, `[queries, keys]`, before dropout and after.
    fn weigh_block(
        &self,
        query: &[f32],
        key_value: &[f32],
        block: Block<'_>,
        buffers: &mut Buffers,
    ) {
        let Block {
            head,
            first,
            queries,
            keys,
            ..
        } = block;
        // The rows of the buffer are as long as the block's keys, so that they are contiguous.
        let weights = &mut buffers.weights[..queries * keys];
        let scores = MatrixMut::strided(weights, queries, keys, keys);
        let own = self.head(
            &query[first * self.query.width..],
            self.query.with_len(queries),
            head,
        );
        let other = self.head(key_value, self.key, head).first_rows(keys);
        product_into(
            scores,
            own,
            other.transposed(),
            self.scale(),
            Store::Overwrite,
        );
        for (query, weights) in weights.chunks_exact_mut(keys).enumerate() {
            vectorized(Softmax {
                rows: weights,
                len: keys,
                forbidden: block.forbidden(query),
            });
        }
        // A copy: the backward pass needs the weights before dropout as well.
        let Some(mask) = block.mask else { return };
        let rows = buffers
            .kept
            .chunks_exact_mut(keys)
            .zip(buffers.weights.chunks_exact(keys))
            .take(queries);
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
fn reach(forbidden: &[bool], all_keys: usize) -> usize {
    let mut keys = 0;
    for row in forbidden.chunks_exact(all_keys) {
        let last = row.iter().rposition(|forbidden| !forbidden);
        // A query to which everything is forbidden weighs all keys alike.
        keys = keys.max(last.map_or(all_keys, |last| last + 1));
    }
    keys
}

impl<'a> Block<'a> {
    /// The row of the attention mask of query `first + query`, as far as the keys of the block.
    fn forbidden(&self, query: usize) -> &'a [bool] {
        // 1 if all queries share a row of the mask.
        let rows = self.forbidden.len() / self.all_keys;
        &self.forbidden[query % rows * self.all_keys..][..self.keys]
    }

    /// The index in the mask of dropout of the first weight of query `first + query`: that among
    /// all weights of the head.
    fn mask_index(&self, query: usize) -> u32 {
        ((self.first + query) * self.all_keys) as u32
    }
}

impl Buffers {
    /// The weights that values are averaged by, after dropout if there is any.
    fn dropped(&self, block: Block<'_>) -> Matrix<'_> {
        let values = if block.mask.is_some() {
            &self.kept
        } else {
            &self.weights
        };
        Matrix::new(
            &values[..block.queries * block.keys],
            block.queries,
            block.keys,
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
