//! The backward pass of attention, head by head, from the weights that the forward pass kept.
//!
//! With the names of [`crate::attention`], a head takes four products and a pass:
//!
//! ```text
//! dV = Dᵀ G
//! S' = G Vᵀ                               (grad_scores)
//! T  = W * (mask * S' - rowsum(..))       in place, by SoftmaxBackward
//! dQ = T K / sqrt(head_dim)
//! dK = Tᵀ Q / sqrt(head_dim)
//! ```
//!
//! `S'` and `T` are one `[query_len, key_len]` matrix, which all heads of a batch row overwrite in
//! turn and which so stays in the core's cache. Gradients are written into columns of the gradient
//! of the projection, where the queries, keys and values were read, so that the linear map's
//! backward pass finds one contiguous matrix.

use super::heads::{Sizes, dropped_weights};
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::SoftmaxBackward;
use crate::flex::vector::vectorized;

/// The parts of everything that the backward pass reads that belong to a batch row.
#[derive(Clone, Copy)]
pub(super) struct BackwardInput<'a> {
    /// `[query_len, width]`: the projection that holds the queries.
    pub(super) query: &'a [f32],
    /// `[key_len, width]`; in self-attention the same slice.
    pub(super) key_value: &'a [f32],
    /// `[num_heads, query_len, key_len]`, before dropout; empty if rows are long.
    pub(super) weights: &'a [f32],
    /// The gradient of the output, `[query_len, d_model]`.
    pub(super) gradient: &'a [f32],
    /// `[query_len or 1, key_len]`.
    pub(super) forbidden: &'a [bool],
    /// The row's mask of dropout; `None` without dropout.
    pub(super) mask: Option<Mask>,
}

/// The gradients of a batch row of the projections, which the backward pass writes.
pub(super) enum Gradients<'a> {
    /// Gradients of self-attention: queries, keys and values side by side.
    Joined(&'a mut [f32]),
    /// Gradients of cross-attention: queries alone, and keys and values side by side.
    Separate {
        query: &'a mut [f32],
        key_value: &'a mut [f32],
    },
}

impl Gradients<'_> {
    /// The projection whose columns have the gradients of the queries.
    pub(super) fn grad_query(&mut self) -> &mut [f32] {
        match self {
            Self::Joined(query) | Self::Separate { query, .. } => query,
        }
    }

    /// The projection whose columns have the gradients of the keys and values.
    pub(super) fn grad_key_value(&mut self) -> &mut [f32] {
        match self {
            Self::Joined(key_value) | Self::Separate { key_value, .. } => key_value,
        }
    }
}

impl Sizes {
    /// Computes the gradients of a batch row's queries, keys and values; `grads` must be zeros.
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
        let mut grad_scores = vec![0.0; self.num_scores()];
        // And one for the weights after dropout, where there is dropout.
        let mut buffer = vec![0.0; if mask.is_some() { self.num_scores() } else { 0 }];
        for (head, weights) in weights.chunks_exact(self.num_scores().max(1)).enumerate() {
            let gradient = self.joined_head(gradient, self.query, head);
            let mask = mask.map(|mask| mask.part(head));
            let dropped = dropped_weights(weights, mask, &mut buffer);
            let dropped = Matrix::new(dropped, rows, columns).transposed();
            // dV = Dᵀ G
            let grad_values = self.head_mut(grads.grad_key_value(), self.value, head);
            product_into(grad_values, dropped, gradient, 1.0, Store::Overwrite);
            // S' = G Vᵀ, the gradient of the weights after dropout.
            let values = self.head(key_value, self.value, head).transposed();
            let grad_dropped = MatrixMut::strided(&mut grad_scores, rows, columns, columns);
            product_into(grad_dropped, gradient, values, 1.0, Store::Overwrite);
            // T, in place.
            vectorized(SoftmaxBackward {
                grads: &mut grad_scores,
                weights,
                len: columns,
                forbidden,
                mask,
                first: 0,
            });
            let grad_scores = Matrix::new(&grad_scores, rows, columns);
            let queries = self.head(query, self.query, head);
            let keys = self.head(key_value, self.key, head);
            // dQ = T K / sqrt(head_dim), scaled by the product on its way out.
            let grad_queries = self.head_mut(grads.grad_query(), self.query, head);
            product_into(
                grad_queries,
                grad_scores,
                keys,
                self.scale(),
                Store::Overwrite,
            );
            // dK = Tᵀ Q / sqrt(head_dim)
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
