//! The middle of a feed-forward block (Vaswani et al., 2017, section 3.3): bias, non-linearity and dropout in one pass.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod gate;

use burn::tensor::Tensor;

use crate::Dropped;

/// What stands between the two projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)` (Hendrycks and Gimpel, 2016), by the error function.
    Gelu,
}

/// `dropout(activation(x W + b))` for every row; none where the tensors are not where the kernel is.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`; output: `[rows, d_out]`
pub fn activated_linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    activation: Activation,
    dropped: Option<Dropped>,
) -> Option<Tensor<2>> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(input) {
        return Some(flex::activated_linear(input.clone(), weight.clone(), bias.clone(), activation, dropped));
    } else if crate::flex::is_flex(input) && dropped.is_none() {
        return Some(flex::apply(input.clone(), weight.clone(), bias.clone(), activation));
    }
    let _ = (input, weight, bias, activation, dropped);
    None
}

/// `dropout(silu(gate) * inner)` with `silu(x) = x / (1 + e^-x)`, the middle of SwiGLU (Shazeer, 2020); none where the
/// tensors are not where the kernel is.
///
/// # Shapes
/// - `gate`, `inner`: the same; output: as they are
pub fn gated(gate: &Tensor<3>, inner: &Tensor<3>, dropped: Option<Dropped>) -> Option<Tensor<3>> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(gate) && crate::flex::has_kernels(inner) {
        return Some(gate::gated(gate.clone(), inner.clone(), dropped));
    }
    let _ = (gate, inner, dropped);
    None
}
