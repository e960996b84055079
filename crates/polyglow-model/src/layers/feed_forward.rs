//! The position-wise feed-forward block (Vaswani et al., 2017, section 3.3).

use burn::module::Module;
use burn::tensor::{Tensor, activation};

use crate::config::{Activation, TransformerShape};
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::parameter::init::ParamInit;

/// `outer(activation(inner(x)))`, or with SwiGLU `outer(silu(gate(x)) * inner(x))`, the same at
/// every position.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `d_model -> d_ff`.
    pub inner: Linear,
    /// The second projection to `d_ff`, SwiGLU only.
    pub gate: Option<Linear>,
    /// `d_ff -> d_model`.
    pub outer: Linear,
    dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl FeedForward {
    /// A block of the configured width and non-linearity.
    pub fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        let d_model = shape.d_model;
        let d_ff = shape.d_ff;
        let is_gated = shape.activation == Activation::Swiglu;
        Self {
            inner: Linear::new(d_model, d_ff, init),
            gate: is_gated.then(|| Linear::new(d_model, d_ff, init)),
            outer: Linear::new(d_ff, d_model, init),
            dropout: Dropout::new(shape.activation_dropout),
            activation: shape.activation,
        }
    }

    /// Applies the block to every row; the output is in the format of [`Linear::narrow`].
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let active = match &self.gate {
            Some(gate) => self.gated(gate.rows(input.clone()), self.inner.rows(input)),
            None => self.activated(input),
        };
        self.outer.narrow(active)
    }

    /// Returns `dropout(silu(gate) * inner)`.
    fn gated(&self, gate: Tensor<2>, inner: Tensor<2>) -> Tensor<2> {
        let fused = polyglow_kernels::gated(&gate, &inner, self.dropout.draw(&gate));
        fused.unwrap_or_else(|| self.dropout.forward(activation::silu(gate) * inner))
    }

    /// Returns `dropout(activation(inner(x)))`, without a gate.
    fn activated(&self, input: Tensor<2>) -> Tensor<2> {
        let kind = match self.activation {
            Activation::Gelu => polyglow_kernels::Activation::Gelu,
            Activation::Swish => polyglow_kernels::Activation::Swish,
            // SwiGLU has a gate, so it does not get here.
            Activation::Relu | Activation::Swiglu => polyglow_kernels::Activation::Relu,
        };
        let dropped = self.dropout.draw(&input);
        if let Some(active) = self.inner.activated(&input, kind, dropped) {
            return active;
        }
        let inner = self.inner.rows(input); // [rows, d_ff]
        self.dropout.forward(match kind {
            polyglow_kernels::Activation::Relu => activation::relu(inner),
            polyglow_kernels::Activation::Gelu => gelu(inner),
            polyglow_kernels::Activation::Swish => activation::silu(inner),
        })
    }
}

/// `x Φ(x)` by the error function: Burn's own `gelu` has only an approximate gradient on most
/// backends.
fn gelu(input: Tensor<2>) -> Tensor<2> {
    let cumulative = (input.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0;
    input * cumulative * 0.5
}
