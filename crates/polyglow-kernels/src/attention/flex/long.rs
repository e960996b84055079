//! Attention over long rows: some queries at a time, with the keys that these may look at, and
//! nothing kept for the backward pass, which computes the weights again. Memory grows with the
//! length and not with its square, and what a causal mask forbids costs nothing.

use super::backward::{BackwardInput, Gradients};
use super::dropping::Dropping;
use super::heads::{Row, Sizes};
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::{Softmax, SoftmaxBackward};
use crate::flex::vector::vectorized;

/// From so many keys on; below it is faster to keep the weights.
pub(super) const LONG: usize = 256;
/// Queries at a time.
const BLOCK: usize = 64;

/// Queries of a head, and how many keys, from the first on, any of them may look at.
#[derive(Clone, Copy)]
struct Block<'a> {
    head: usize,
    first: usize,
    queries: usize,
    keys: usize,
    /// All keys of a mask's row.
    all_keys: usize,
    /// Rows of the mask, one for each query or one for all.
    forbidden: &'a [bool],
    /// Of the head.
    mask: Option<Mask>,
}

/// Weights of a block, and the same after dropout.
struct Room {
    weights: Vec<f32>,
    kept: Vec<f32>,
}

impl Sizes {
    /// The part of a batch row in the output.
    pub(super) fn forward_long(&self, row: Row<'_>, mask: Option<Mask>, output: &mut [f32]) {
        let mut room = self.room(mask);
        for block in self.blocks(row.forbidden, mask) {
            self.weigh_block(row.query, row.key_value, block, &mut room);
            let values = self
                .head(row.key_value, self.value, block.head)
                .first_rows(block.keys);
            let output = &mut output[block.first * self.d_model()..];
            let output =
                self.joined_head_mut(output, self.query.with_len(block.queries), block.head);
            product_into(output, room.used(block), values, 1.0, Store::Overwrite);
        }
    }

    /// As [`Self::back`].
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
        let mut room = self.room(mask);
        let mut grad_weights = vec![0.0; BLOCK * self.key.len];
        for block in self.blocks(forbidden, mask) {
            let Block {
                head,
                first,
                queries,
                keys,
                ..
            } = block;
            self.weigh_block(query, key_value, block, &mut room);
            let own = self.query.with_len(queries);
            let gradient = self.joined_head(&gradient[first * d_model..], own, head);
            let grad_values =
                self.head_mut(grads.grad_key_value(), self.value.with_len(keys), head);
            product_into(
                grad_values,
                room.used(block).transposed(),
                gradient,
                1.0,
                Store::Accumulate,
            );
            let grad_weights = &mut grad_weights[..queries * keys];
            let values = self.head(key_value, self.value, head).first_rows(keys);
            let grad_used = MatrixMut::strided(grad_weights, queries, keys, keys);
            product_into(
                grad_used,
                gradient,
                values.transposed(),
                1.0,
                Store::Overwrite,
            );
            let rows = grad_weights
                .chunks_exact_mut(keys)
                .zip(room.weights.chunks_exact(keys));
            for (place, (grad_weights, weights)) in rows.enumerate() {
                let forbidden = block.forbidden(place);
                vectorized(SoftmaxBackward {
                    grads: grad_weights,
                    weights,
                    len: keys,
                    forbidden,
                    mask: block.mask,
                    first: block.draw(place),
                });
            }
            let grad_scores = Matrix::new(grad_weights, queries, keys);
            let queries = self.head(&query[first * own.width..], own, head);
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

    fn room(&self, mask: Option<Mask>) -> Room {
        let size = BLOCK * self.key.len;
        Room {
            weights: vec![0.0; size],
            kept: vec![0.0; if mask.is_some() { size } else { 0 }],
        }
    }

    /// All blocks of a batch row, head by head; `mask` is that of the row.
    fn blocks<'a>(
        &self,
        forbidden: &'a [bool],
        mask: Option<Mask>,
    ) -> impl Iterator<Item = Block<'a>> {
        let len = self.query.len;
        let all_keys = self.key.len;
        let num_heads = self.num_heads;
        let places: Vec<(usize, usize, &[bool])> = (0..len)
            .step_by(BLOCK)
            .map(|first| {
                let queries = BLOCK.min(len - first);
                let one_for_all = forbidden.len() == all_keys;
                let forbidden = if one_for_all {
                    forbidden
                } else {
                    &forbidden[first * all_keys..][..queries * all_keys]
                };
                (first, queries, forbidden)
            })
            .collect();
        let reach = |(first, queries, forbidden): (usize, usize, &'a [bool])| {
            // A row that may look at nothing looks at everything alike.
            let of_row = |row: &[bool]| {
                row.iter()
                    .rposition(|forbidden| !forbidden)
                    .map_or(all_keys, |last| last + 1)
            };
            let keys = forbidden
                .chunks_exact(all_keys)
                .map(of_row)
                .max()
                .unwrap_or(0);
            (first, queries, keys, forbidden)
        };
        let blocks: Vec<_> = places.into_iter().map(reach).collect();
        (0..num_heads).flat_map(move |head| {
            let mask = mask.map(|mask| mask.part(head));
            let block = move |(first, queries, keys, forbidden)| Block {
                head,
                first,
                queries,
                keys,
                all_keys,
                forbidden,
                mask,
            };
            blocks.clone().into_iter().map(block)
        })
    }

    /// The weights of a block, `[queries, keys]`.
    fn weigh_block(&self, query: &[f32], key_value: &[f32], block: Block<'_>, room: &mut Room) {
        let Block {
            head,
            first,
            queries,
            keys,
            ..
        } = block;
        let weights = &mut room.weights[..queries * keys];
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
        for (place, weights) in weights.chunks_exact_mut(keys).enumerate() {
            vectorized(Softmax {
                rows: weights,
                len: keys,
                forbidden: block.forbidden(place),
            });
        }
        let Some(mask) = block.mask else { return };
        let rows = room
            .kept
            .chunks_exact_mut(keys)
            .zip(room.weights.chunks_exact(keys))
            .take(queries);
        for (place, (output, input)) in rows.enumerate() {
            vectorized(Dropping {
                output,
                input,
                mask,
                first: block.draw(place),
            });
        }
    }
}

impl<'a> Block<'a> {
    /// The keys that one of the queries may not look at.
    fn forbidden(&self, place: usize) -> &'a [bool] {
        let rows = self.forbidden.len() / self.all_keys;
        &self.forbidden[place % rows * self.all_keys..][..self.keys]
    }

    /// The number of the first draw for one of the queries: that of its first weight among all of
    /// the head.
    fn draw(&self, place: usize) -> u32 {
        ((self.first + place) * self.all_keys) as u32
    }
}

impl Room {
    /// The weights that values are averaged by.
    fn used(&self, block: Block<'_>) -> Matrix<'_> {
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
    use burn::tensor::{Device, Distribution, Tensor, TensorData};

    use super::super::heads::Forbidden;
    use super::*;
    use crate::Dropped;
    use crate::flex::tests::assert_near;

    /// With the same masks of dropout.
    #[test]
    fn in_blocks_it_is_as_with_weights_that_are_kept() {
        let random = |shape: [usize; 3]| -> Vec<f32> {
            let tensor =
                Tensor::<3>::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex());
            tensor.into_data().iter().collect()
        };
        let len = 150;
        let heads = 2;
        let d_model = 12;
        let qkv = random([1, len, 3 * d_model]);
        let gradient = random([1, len, d_model]);
        let sizes = Sizes::for_self([1, len, 3 * d_model], heads);
        for causal in [false, true] {
            // Padding behind, and with `causal` the future; one row for all queries where it is the
            // same for all.
            let rows = if causal { len } else { 1 };
            let forbidden = |place: usize| place % len > 140 || causal && place % len > place / len;
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
