//! The position-wise feed-forward block (Vaswani et al., 2017, section 3.3).

use burn::module::Module;
use burn::tensor::{Tensor, activation};

use crate::config::{Activation, TransformerConfig};
use crate::dropout::Dropout;
use crate::init::ParamInit;
use crate::linear::Linear;

/// `outer(activation(inner(x)))`, or with SwiGLU `outer(silu(gate(x)) * inner(x))`, the same at every position.
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
    pub fn new(config: &TransformerConfig, init: &mut ParamInit) -> Self {
        let (d_model, d_ff) = (config.d_model, config.d_ff);
        let gated = config.activation == Activation::Swiglu;
        Self {
            inner: Linear::new(d_model, d_ff, init),
            gate: gated.then(|| Linear::new(d_model, d_ff, init)),
            outer: Linear::new(d_ff, d_model, init),
            dropout: Dropout::new(config.activation_dropout, init),
            activation: config.activation,
        }
    }

    /// # Shapes
    /// - `input`: `[batch, len, d_model]`; output: as `input`
    pub fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        let inner = self.inner.forward(input.clone()); // [batch, len, d_ff]
        let active = match (self.activation, &self.gate) {
            (Activation::Relu, _) => activation::relu(inner),
            (Activation::Gelu, _) => gelu(inner),
            (Activation::Swiglu, Some(gate)) => activation::silu(gate.forward(input)) * inner,
            (Activation::Swiglu, None) => unreachable!("a SwiGLU block is built with its gate"),
        };
        self.outer.forward(self.dropout.forward(active))
    }
}

/// `x Φ(x)` by the error function: Burn's own `gelu` has only an approximate gradient on most backends.
fn gelu(input: Tensor<3>) -> Tensor<3> {
    let cumulative = (input.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0;
    input * cumulative * 0.5
}
