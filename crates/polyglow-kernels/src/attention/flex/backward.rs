//! The gradients of a batch row, head by head, from the weights that were kept.

use super::dropping::Dropping;
use super::heads::Sizes;
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::SoftmaxBackward;
use crate::flex::vector::vectorized;

/// What the gradients of a batch row are made from.
#[derive(Clone, Copy)]
pub(super) struct BackwardInput<'a> {
    pub(super) query: &'a [f32],
    pub(super) key_value: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) gradient: &'a [f32],
    pub(super) forbidden: &'a [bool],
    pub(super) mask: Option<Mask>,
}

/// Where the gradients of a batch row go: to all positions of the projections that queries, and
/// keys and values, were read from.
pub(super) enum Gradients<'a> {
    /// Of a sequence that attends to itself.
    Joined(&'a mut [f32]),
    Separate {
        query: &'a mut [f32],
        key_value: &'a mut [f32],
    },
}

impl Gradients<'_> {
    pub(super) fn grad_query(&mut self) -> &mut [f32] {
        match self {
            Self::Joined(query) | Self::Separate { query, .. } => query,
        }
    }

    pub(super) fn grad_key_value(&mut self) -> &mut [f32] {
        match self {
            Self::Joined(key_value) | Self::Separate { key_value, .. } => key_value,
        }
    }
}

impl Sizes {
    /// The gradients of a batch row's queries, keys and values, by the formulas of
    /// [`crate::attention`]; `slopes` are zeros before.
    pub(super) fn backward(&self, state: BackwardInput<'_>, mut grads: Gradients<'_>) {
        if self.is_long() {
            return self.backward_long(state, grads);
        }
        let BackwardInput {
            query,
            key_value,
            weights,
            gradient,
            forbidden,
            mask,
        } = state;
        let rows = self.query.len;
        let columns = self.key.len;
        // One score matrix for all heads, which stays in the cache.
        let mut grad_weights = vec![0.0; self.num_scores()];
        let mut kept = vec![0.0; if mask.is_some() { self.num_scores() } else { 0 }];
        for (head, weights) in weights.chunks_exact(self.num_scores().max(1)).enumerate() {
            let gradient = self.joined_head(gradient, self.query, head);
            let mask = mask.map(|mask| mask.part(head));
            let used = match mask {
                None => weights,
                Some(mask) => {
                    vectorized(Dropping {
                        output: &mut kept,
                        input: weights,
                        mask,
                        first: 0,
                    });
                    &kept
                }
            };
            let used = Matrix::new(used, rows, columns).transposed();
            let grad_values = self.head_mut(grads.grad_key_value(), self.value, head);
            product_into(grad_values, used, gradient, 1.0, Store::Overwrite);
            let values = self.head(key_value, self.value, head).transposed();
            let grad_used = MatrixMut::strided(&mut grad_weights, rows, columns, columns);
            product_into(grad_used, gradient, values, 1.0, Store::Overwrite);
            // From here on `of_weights` has the gradient of the scores.
            vectorized(SoftmaxBackward {
                grads: &mut grad_weights,
                weights,
                len: columns,
                forbidden,
                mask,
                first: 0,
            });
            let grad_scores = Matrix::new(&grad_weights, rows, columns);
            let queries = self.head(query, self.query, head);
            let keys = self.head(key_value, self.key, head);
            let grad_queries = self.head_mut(grads.grad_query(), self.query, head);
            product_into(
                grad_queries,
                grad_scores,
                keys,
                self.scale(),
                Store::Overwrite,
            );
            let grad_keys = self.head_mut(grads.grad_key_value(), self.key, head);
            product_into(
                grad_keys,
                grad_scores.transposed(),
                queries,
                self.scale(),
                Store::Overwrite,
            );
        }
    }
}
