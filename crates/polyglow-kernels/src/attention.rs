//! Scaled dot-product attention over all heads (Vaswani et al., 2017, section 3.2), straight from
//! the fused projections.
//!
//! # Formulas
//! Per head, with `Q` of `[query_len, head_dim]`, `K` and `V` of `[key_len, head_dim]`, and `*` for
//! products of elements:
//!
//! ```text
//! W = softmax(Q Kᵀ / sqrt(head_dim))    with forbidden scores at FORBIDDEN
//! D = mask * W                          with dropout, otherwise W
//! output = D V
//! ```
//!
//! With `G` the gradient of the output, the gradients are
//!
//! ```text
//! S = mask * (G Vᵀ)                     of W
//! T = W * (S - rowsum(W * S))           of the scores, 0 where attention is forbidden
//! dV = Dᵀ G
//! dQ = T K / sqrt(head_dim)
//! dK = Tᵀ Q / sqrt(head_dim)
//! ```
//!
//! # Layout
//! A linear map gives queries, keys and values side by side: row `[len, 3 * d_model]` holds the
//! queries of head 0, head 1, and so on, then the keys, then the values. Kernels read a head where
//! it lies, as a matrix of `head_dim` columns whose rows are `3 * d_model` apart, and write its
//! output into columns of `[len, d_model]`. So heads are never split, transposed or joined in
//! memory, which would be passes of their own.

pub(crate) mod cache;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::{Bool, Tensor};

use crate::Dropped;

/// The score of a forbidden key, in place of minus infinity: far below any score, and finite, so
/// that a row in which everything is forbidden becomes uniform instead of NaN.
pub const FORBIDDEN: f32 = -1e9;

/// Returns the attention of a sequence to itself, over all heads; `None` if there is no kernel for
/// these tensors. Everything between input and output is f32.
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

/// Returns the attention of a sequence to another one, as [`self_attention`]; `None` if there is no
/// kernel for these tensors.
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
