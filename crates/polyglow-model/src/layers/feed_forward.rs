//! The position-wise feed-forward block (Vaswani et al., 2017, section 3.3).

use burn::module::Module;
use burn::tensor::{Tensor, activation};

use crate::config::{Activation, WIDEST, check_dropout, check_size};
use crate::dropout::Dropout;
use crate::error::ModelError;
use crate::linear::{Linear, projection};
use crate::parameter::init::ParamInit;

/// The sizes and the kind of a [`FeedForward`] block.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForwardConfig {
    /// Width of the input and of the output.
    pub d_model: usize,
    /// Width inside the block.
    pub d_ff: usize,
    /// The non-linearity; with [`Activation::Swiglu`] the block has a gate, a third matrix.
    pub activation: Activation,
    /// Whether the projections have biases, as in the first Transformers. Shazeer's gated blocks
    /// have none.
    pub bias: bool,
    /// Dropout after the non-linearity, a probability.
    pub dropout: f64,
}

impl FeedForwardConfig {
    /// Checks that a block can have these sizes.
    ///
    /// # Errors
    /// [`ModelError::Config`], with the name of the field as its key, for a size of zero or beyond
    /// reason, and for a dropout outside `[0, 1)`.
    pub fn check(&self) -> Result<(), ModelError> {
        check_size("d_model", self.d_model, WIDEST)?;
        check_size("d_ff", self.d_ff, 4 * WIDEST)?;
        check_dropout("dropout", self.dropout)
    }
}

/// The feed-forward block, the same at every position: `outer(activation(inner(x)))` (Vaswani et
/// al., 2017, section 3.3), or with a gate `outer(silu(gate(x)) * inner(x))` (SwiGLU: Shazeer,
/// 2020, section 2, equation 6).
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::Activation;
/// use polyglow_model::feed_forward::{FeedForward, FeedForwardConfig};
/// use polyglow_model::init::ParamInit;
///
/// let config = FeedForwardConfig {
///     d_model: 8,
///     d_ff: 20,
///     activation: Activation::Swiglu,
///     bias: false,
///     dropout: 0.1,
/// };
/// let device = Device::flex();
/// let block = FeedForward::new(&config, &mut ParamInit::new(1, &device));
/// let states = Tensor::<2>::ones([3, 8], &device);
/// assert_eq!(block.forward(states).dims(), [3, 8]);
/// ```
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
    /// A block with fresh weights.
    ///
    /// # Panics
    /// If [`FeedForwardConfig::check`] refuses the config.
    pub fn new(config: &FeedForwardConfig, init: &mut ParamInit) -> Self {
        config.check().expect("the sizes of a feed-forward block");
        let FeedForwardConfig {
            d_model,
            d_ff,
            activation,
            bias,
            dropout,
        } = *config;
        let is_gated = activation == Activation::Swiglu;
        Self {
            inner: projection(d_model, &[d_ff], bias, init),
            gate: is_gated.then(|| projection(d_model, &[d_ff], bias, init)),
            outer: projection(d_ff, &[d_model], bias, init),
            dropout: Dropout::new(dropout),
            activation,
        }
    }

    /// Applies the block to every row; the output is in the format of [`Linear::narrow`], which
    /// [`Dropout::add`] and [`widened`](crate::linear::widened) convert to f32.
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
