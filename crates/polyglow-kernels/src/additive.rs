//! Additive attention (Bahdanau et al., 2015, section A.1.2): `softmax(vᵀ tanh(q + k))` over the
//! keys, without an array of `[batch, len, key_len, width]`, which Burn's operations would write
//! and keep.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Bool, Tensor};

/// Returns the attention weights of each query: the softmax of `vᵀ tanh(q + k)` over the
/// keys that `mask` leaves open; `None` if there is no kernel for these tensors.
///
/// With `t = tanh(q + k)` and `s` the gradient of a score, which the softmax gives
/// (`weight * (g - sum(weight * g))`), each pair of a query and a key adds `s v (1 - t²)` to the
/// gradients of `q` and `k`, and `s t` to that of `v`.
///
/// # Shapes
/// - `queries`: `[batch, len, width]`; `keys`: `[batch, key_len, width]`; `mixed`: `v`,
///   `[width, 1]`
/// - `mask`: `[batch, 1, key_len]`, `true` where attention is forbidden; output:
///   `[batch, len, key_len]`
pub fn additive_weights(
    queries: &Tensor<3>,
    keys: &Tensor<3>,
    score_vector: &Tensor<2>,
    mask: &Tensor<3, Bool>,
) -> Option<Tensor<3>> {
    kernel!(flex::additive_weights(queries, keys, score_vector, mask))
}
