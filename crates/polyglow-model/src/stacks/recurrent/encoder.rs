//! Reads the source from both ends (Schuster and Paliwal, 1997; Bahdanau et al., 2015, section
//! 3.2).

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use super::{Direction, Recurrent};
use crate::config::RnnShape;
use crate::dropout::Dropout;
use crate::parameter::init::ParamInit;

/// A stack of bidirectional layers.
#[derive(Module, Debug)]
pub struct RecurrentEncoder {
    /// From the lowest upwards.
    pub layers: Vec<BidirectionalLayer>,
    dropout: Dropout,
}

/// Two directions, each of half the width.
#[derive(Module, Debug)]
pub struct BidirectionalLayer {
    /// From the first position to the last.
    pub forward: Recurrent,
    /// From the last position to the first.
    pub backward: Recurrent,
}

impl RecurrentEncoder {
    /// The configured number of layers.
    pub fn new(shape: &RnnShape, init: &mut ParamInit) -> Self {
        let half = shape.d_model / 2;
        let layer = |init: &mut ParamInit| BidirectionalLayer {
            forward: shape.layer(half, init),
            backward: shape.layer(half, init),
        };
        let layers = (0..shape.num_encoder_layers).map(|_| layer(init)).collect();
        Self {
            layers,
            dropout: Dropout::new(shape.dropout),
        }
    }

    /// The states after each layer, from the lowest, and a summary of the source: the last states
    /// of both directions of the highest layer.
    ///
    /// # Shapes
    /// - `input`: `[batch, src_len, d_model]`; `pad_mask`: `[batch, 1, 1, src_len]`
    /// - output: as `input` each, and `[batch, d_model]`
    pub fn forward(
        &self,
        input: Tensor<3>,
        pad_mask: &Tensor<4, Bool>,
    ) -> (Vec<Tensor<3>>, Tensor<2>) {
        let [batch, len, d_model] = input.dims();
        let padding = pad_mask.clone().reshape([batch, len]);
        let mut states = Vec::with_capacity(self.layers.len());
        let mut hidden = input;
        for (number, layer) in self.layers.iter().enumerate() {
            if number > 0 {
                hidden = self.dropout.forward(hidden);
            }
            let forward =
                layer
                    .forward
                    .run(hidden.clone(), Some(&padding), None, Direction::Forward);
            let backward = layer
                .backward
                .run(hidden, Some(&padding), None, Direction::Backward);
            hidden = Tensor::cat(vec![forward, backward], 2);
            states.push(hidden.clone());
        }
        let half = d_model / 2;
        let last_read = |place, from| hidden.clone().narrow(1, place, 1).narrow(2, from, half);
        let last = Tensor::cat(vec![last_read(len - 1, 0), last_read(0, half)], 2);
        (states, last.squeeze_dim(1))
    }
}
