//! Scaled dot-product attention over all heads (Vaswani et al., 2017, section 3.2), straight from
//! the fused projections.
//!
//! Per head, `W = softmax(Q Kᵀ / sqrt(head_dim))` with forbidden scores at [`FORBIDDEN`],
//! `D = mask * W` with dropout, and the output is `D V`. With `G` the gradient of the output and
//! `S = mask * (G Vᵀ)` that of `W`, the gradients are `Dᵀ G` of `V`; `T = W * (S - rowsum(W * S))`
//! of the scores, 0 where attention is forbidden; `T K / sqrt(head_dim)` of `Q`; and
//! `Tᵀ Q / sqrt(head_dim)` of `K`.

pub(crate) mod cache;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::{Bool, Tensor};

use crate::Dropped;

/// Stands for minus infinity before the softmax: far below any score, and finite, so that a row in
/// which everything is forbidden becomes uniform instead of NaN.
pub const FORBIDDEN: f32 = -1e9;

/// Attention of a sequence to itself, heads split and joined inside; `None` if there is no kernel
/// for these tensors. Nothing is rounded in between.
///
/// # Shapes
/// - `qkv`: `[batch, len, 3 * d_model]`, queries, keys and values side by side; output:
///   `[batch, len, d_model]`
/// - `mask`: `[batch or 1, 1, len or 1, len]`, `true` where attention is forbidden
pub fn self_attention(
    qkv: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    kernel!(self_attention(qkv, mask, num_heads, dropped))
}

/// Attention of a sequence to another, as [`self_attention`]; `None` if there is no kernel for
/// these tensors.
///
/// # Shapes
/// - `query`: `[batch, query_len, d_model]`; `key_value`: `[batch, key_len, 2 * d_model]`; output:
///   as `query`
/// - `mask`: `[batch or 1, 1, query_len or 1, key_len]`, `true` where attention is forbidden
pub fn cross_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    kernel!(cross_attention(query, key_value, mask, num_heads, dropped))
}
