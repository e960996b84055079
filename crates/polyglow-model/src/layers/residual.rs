//! The residual connection around every sublayer: dropout, sum, layer normalization (Vaswani et
//! al., 2017, section 3.1).

use burn::module::Module;
use burn::tensor::Tensor;

use crate::config::{Norm, TransformerShape};
use crate::dropout::Dropout;
use crate::layer_norm::LayerNorm;
use crate::parameter::init::ParamInit;

/// `norm(x + dropout(sublayer(x)))`, or with pre-norm `x + dropout(sublayer(norm(x)))`.
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
    pub fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            norm: LayerNorm::new(shape.d_model, init),
            dropout: Dropout::new(shape.dropout),
            order: shape.norm,
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
