//! The bidirectional recurrent encoder (Schuster and Paliwal, 1997; Bahdanau et al., 2015, section
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

/// Two layers of opposite directions, each of half the width.
#[derive(Module, Debug)]
pub struct BidirectionalLayer {
    /// Reads from the first position to the last.
    pub forward: Recurrent,
    /// Reads from the last position to the first.
    pub backward: Recurrent,
}

impl RecurrentEncoder {
    /// A stack of the configured number of layers.
    pub fn new(shape: &RnnShape, init: &mut ParamInit) -> Self {
        let half = shape.d_model / 2;
        let layers = (0..shape.num_encoder_layers)
            .map(|_| BidirectionalLayer {
                forward: shape.layer(half, init),
                backward: shape.layer(half, init),
            })
            .collect();
        Self {
            layers,
            dropout: Dropout::new(shape.dropout),
        }
    }

    /// Returns the states after each layer, from the lowest, and a summary of the source: the last
    /// states of both directions of the highest layer.
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
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
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
        // Each direction has read the whole source at the position where it ends.
        let half = d_model / 2;
        let forward_end = hidden.clone().narrow(1, len - 1, 1).narrow(2, 0, half);
        let backward_end = hidden.narrow(1, 0, 1).narrow(2, half, half);
        let summary = Tensor::cat(vec![forward_end, backward_end], 2);
        (states, summary.squeeze_dim(1))
    }
}
