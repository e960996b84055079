//! The residual connection around every sublayer: dropout, sum, layer normalization (Vaswani et
//! al., 2017, section 3.1).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::config::Norm;
use crate::dropout::Dropout;
use crate::layer_norm::LayerNorm;
use crate::parameter::init::ParamInit;

/// The size and the kind of a [`Residual`] connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualConfig {
    /// Width of the states.
    pub d_model: usize,
    /// Whether the norm comes before or after the sublayer.
    pub norm: Norm,
    /// Dropout on the sublayer's output, a probability.
    pub dropout: f64,
}

/// `norm(x + dropout(sublayer(x)))`, or with pre-norm `x + dropout(sublayer(norm(x)))`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::Norm;
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::residual::{Residual, ResidualConfig};
///
/// let config = ResidualConfig {
///     d_model: 4,
///     norm: Norm::Pre,
///     dropout: 0.1,
/// };
/// let device = Device::flex();
/// let residual = Residual::new(&config, &mut ParamInit::new(1, &device));
/// let states = Tensor::<2>::ones([3, 4], &device);
/// // The norm of equal elements is zero.
/// let output = residual.forward(states.clone(), |normalized| normalized * 2.0);
/// assert_eq!(output.into_data(), states.into_data());
/// ```
#[derive(Module, Debug)]
pub struct Residual {
    /// The norm before or after the sublayer.
    pub norm: LayerNorm,
    dropout: Dropout,
    #[module(skip)]
    order: Norm,
}

impl Residual {
    /// The connection around one sublayer.
    pub fn new(config: &ResidualConfig, init: &mut ParamInit) -> Self {
        Self {
            norm: LayerNorm::new(config.d_model, init),
            dropout: Dropout::new(config.dropout),
            order: config.norm,
        }
    }

    /// Runs `sublayer` inside its residual connection.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    pub fn forward(
        &self,
        input: Tensor<2>,
        sublayer: impl FnOnce(Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        match self.order {
            Norm::Pre => {
                let output = sublayer(self.norm.forward(input.clone()));
                self.dropout.add(input, output)
            }
            Norm::Post => {
                let output = sublayer(input.clone());
                self.norm.forward_sum(input, output, &self.dropout)
            }
        }
    }
}
