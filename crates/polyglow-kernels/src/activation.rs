//! The middle of a feed-forward block (Vaswani et al., 2017, section 3.3): a linear map with its
//! activation and dropout, `mask * activation(x W + b)`, and the gate of SwiGLU.
//!
//! `[rows, d_ff]` is the widest tensor of a layer, so what counts is how often it is read and
//! written: bias, activation and dropout are one pass, and of the intermediate values at most one
//! is kept.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use burn::tensor::Tensor;

use crate::{Dropped, Factors, Packed};

/// The function between the two projections of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)` with the normal distribution `Φ`, exactly and not by the hyperbolic tangent
    /// (Hendrycks and Gimpel, 2016).
    Gelu,
    /// `x σ(x)`, also called SiLU (Ramachandran et al., 2017).
    Swish,
}

/// Returns `dropout(activation(x W + b))` for every row, with rounded factors as in
/// [`linear`](crate::linear()); `None` if there is no kernel for these tensors.
///
/// With `g` the gradient of the output and `s = g * mask * activation'(x W + b)`, the gradients are
/// `s Wᵀ` of `x`, `xᵀ s` of `W`, and the sum of the rows of `s` of `b`. `relu'` is 1 above 0 and 0
/// elsewhere; `gelu'(x) = Φ(x) + x φ(x)` with the normal density `φ`;
/// `swish'(x) = σ(x) (1 + x (1 - σ(x)))`.
///
/// Without autodiff `packed` keeps a copy of the weight, as in
/// [`repeated_linear`](crate::repeated_linear).
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`; output: `[rows, d_out]`
pub fn activated_linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    dropped: Option<Dropped>,
    factors: Factors,
    packed: &Packed,
) -> Option<Tensor<2>> {
    let output = kernel!(flex::activated_linear(
        input, weight, bias, activation, dropped, factors, packed
    ));
    #[cfg(feature = "gpu")]
    let output =
        output.or_else(|| gpu::activated_linear(input, weight, bias, activation, dropped, factors));
    output
}

/// Returns `dropout(silu(gate) * inner)` with `silu(x) = x σ(x)`, the middle of SwiGLU (Shazeer,
/// 2020, section 2); `None` if there is no kernel for these tensors, as always without autodiff.
///
/// With `g` the gradient of the output and `s = g * mask`, the gradients are
/// `s inner σ(gate) (1 + gate (1 - σ(gate)))` of `gate` and `s silu(gate)` of `inner`.
///
/// # Shapes
/// - `gate`, `inner` and output: `[rows, d_ff]`
pub fn gated(gate: &Tensor<2>, inner: &Tensor<2>, dropped: Option<Dropped>) -> Option<Tensor<2>> {
    kernel!(flex::gated(gate, inner, dropped))
}
