//! Additive attention (Bahdanau et al., 2015, section A.1.2) without an array of every pair of positions times the width.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Bool, Tensor};

/// The weights with which each query looks at each key: the softmax of `vᵀ tanh(q + k)` over the keys that `mask` leaves
/// open; none where the tensors are not where the kernel is.
///
/// # Shapes
/// - `queries`: `[batch, len, width]`; `keys`: `[batch, key_len, width]`; `mixed`: `v`, `[width, 1]`
/// - `mask`: `[batch, 1, key_len]`, `true` where attention is forbidden; output: `[batch, len, key_len]`
pub fn additive_weights(
    queries: &Tensor<3>,
    keys: &Tensor<3>,
    mixed: &Tensor<2>,
    mask: &Tensor<3, Bool>,
) -> Option<Tensor<3>> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(queries) && crate::flex::has_kernels(keys) {
        return Some(flex::additive_weights(queries.clone(), keys.clone(), mixed.clone(), mask));
    } else if crate::flex::is_flex(queries) && crate::flex::is_flex(keys) {
        return Some(flex::apply(queries.clone(), keys.clone(), mixed.clone(), mask));
    }
    let _ = (queries, keys, mixed, mask);
    None
}
