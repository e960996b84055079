//! The gradients of a batch row, head by head, from the weights that were kept.

use super::dropping::Dropping;
use super::heads::Sizes;
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Old, product_into};
use crate::flex::softmax::SoftmaxBack;
use crate::flex::vector::vectorized;

/// What the gradients of a batch row are made from.
#[derive(Clone, Copy)]
pub(super) struct Back<'a> {
    pub(super) query: &'a [f32],
    pub(super) key_value: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) gradient: &'a [f32],
    pub(super) forbidden: &'a [bool],
    pub(super) mask: Option<Mask>,
}

/// Where the gradients of a batch row go: to all positions of the projections that queries, and
/// keys and values, were read from.
pub(super) enum Slopes<'a> {
    /// Of a sequence that attends to itself.
    Together(&'a mut [f32]),
    Apart {
        query: &'a mut [f32],
        key_value: &'a mut [f32],
    },
}

impl Slopes<'_> {
    pub(super) fn of_query(&mut self) -> &mut [f32] {
        match self {
            Self::Together(query) | Self::Apart { query, .. } => query,
        }
    }

    pub(super) fn of_key_value(&mut self) -> &mut [f32] {
        match self {
            Self::Together(key_value) | Self::Apart { key_value, .. } => key_value,
        }
    }
}

impl Sizes {
    /// The gradients of a batch row's queries, keys and values, by the formulas of
    /// [`crate::attention`]; `slopes` are zeros before.
    pub(super) fn back(&self, state: Back<'_>, mut slopes: Slopes<'_>) {
        if self.is_long() {
            return self.back_long(state, slopes);
        }
        let Back {
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
        let mut of_weights = vec![0.0; self.num_scores()];
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
            let of_values = self.head_mut(slopes.of_key_value(), self.value, head);
            product_into(of_values, used, gradient, 1.0, Old::Replaced);
            let values = self.head(key_value, self.value, head).transposed();
            let of_used = MatrixMut::strided(&mut of_weights, rows, columns, columns);
            product_into(of_used, gradient, values, 1.0, Old::Replaced);
            // From here on `of_weights` has the gradient of the scores.
            vectorized(SoftmaxBack {
                slopes: &mut of_weights,
                weights,
                len: columns,
                forbidden,
                mask,
                first: 0,
            });
            let of_scores = Matrix::new(&of_weights, rows, columns);
            let queries = self.head(query, self.query, head);
            let keys = self.head(key_value, self.key, head);
            let of_queries = self.head_mut(slopes.of_query(), self.query, head);
            product_into(of_queries, of_scores, keys, self.scale(), Old::Replaced);
            let of_keys = self.head_mut(slopes.of_key_value(), self.key, head);
            product_into(
                of_keys,
                of_scores.transposed(),
                queries,
                self.scale(),
                Old::Replaced,
            );
        }
    }
}
