//! The encoder: self-attention and feed-forward, layer upon layer (Vaswani et al., 2017, section
//! 3.1).

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use crate::attention::{AttentionInput, AttentionKind, KeyValue, SelfAttention, Watch, reborrow};
use crate::config::{Norm, TransformerShape};
use crate::feed_forward::FeedForward;
use crate::layer_norm::LayerNorm;
use crate::parameter::init::ParamInit;
use crate::position::Rotation;
use crate::residual::Residual;

/// A stack of encoder layers.
#[derive(Module, Debug)]
pub struct Encoder {
    /// From the embedding upwards.
    pub layers: Vec<EncoderLayer>,
    /// The final norm with pre-norm, which leaves the last residual sum unnormalized.
    pub norm: Option<LayerNorm>,
}

/// Self-attention, then feed-forward.
#[derive(Module, Debug)]
pub struct EncoderLayer {
    /// Attention from every position to every other.
    pub self_attention: SelfAttention,
    /// The residual connection around the self-attention.
    pub self_attention_residual: Residual,
    /// The position-wise block.
    pub feed_forward: FeedForward,
    /// The residual connection around the feed-forward block.
    pub feed_forward_residual: Residual,
}

impl Encoder {
    /// A stack of `num_layers` layers of the configured kind.
    pub fn new(shape: &TransformerShape, num_layers: usize, init: &mut ParamInit) -> Self {
        Self {
            layers: (0..num_layers)
                .map(|_| EncoderLayer::new(shape, init))
                .collect(),
            norm: (shape.norm == Norm::Pre).then(|| LayerNorm::new(shape.d_model, init)),
        }
    }

    /// Runs all layers, and calls `watch` with the attention weights of each.
    ///
    /// # Shapes
    /// - `input`: `[batch, src_len, d_model]`; output: as `input`
    /// - `mask`: broadcast to `[batch, num_heads, src_len, src_len]`
    pub fn forward(
        &self,
        input: Tensor<3>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
        mut watch: Watch<'_>,
    ) -> Tensor<3> {
        let shape = input.dims();
        let mut hidden = input.flatten(0, 1);
        for layer in &self.layers {
            hidden = layer.forward(hidden, mask, rotation, reborrow(&mut watch));
        }
        self.finish(hidden).reshape(shape)
    }

    /// Returns the state after each layer of [`Self::forward`], from the lowest; the last is its
    /// output.
    ///
    /// # Shapes
    /// - `input`: `[batch, src_len, d_model]`; output: as `input` each
    /// - `mask`: `[batch, 1, 1, src_len]`
    pub fn states(
        &self,
        input: Tensor<3>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
    ) -> Vec<Tensor<3>> {
        let shape = input.dims();
        let mut states = Vec::with_capacity(self.layers.len());
        let mut hidden = input.flatten(0, 1);
        for layer in &self.layers {
            hidden = layer.forward(hidden, mask, rotation, None);
            states.push(hidden.clone().reshape(shape));
        }
        // The final norm belongs to the highest layer.
        states.pop();
        states.push(self.finish(hidden).reshape(shape));
        states
    }

    /// Runs all layers on one more position, which may attend to itself and to all of `past`; each
    /// layer's key and value are added there.
    ///
    /// # Shapes
    /// - `input`: `[rows, 1, d_model]`; output: as `input`
    pub fn advance(
        &self,
        input: Tensor<3>,
        rotation: Option<&Rotation>,
        past: &mut [Option<KeyValue>],
    ) -> Tensor<3> {
        let mut hidden = input.squeeze_dim(1);
        for (layer, past) in self.layers.iter().zip(past) {
            hidden = layer.advance(hidden, rotation, past);
        }
        self.finish(hidden).unsqueeze_dim(1)
    }

    /// Applies the final norm, if there is one.
    fn finish(&self, output: Tensor<2>) -> Tensor<2> {
        match &self.norm {
            Some(norm) => norm.forward(output),
            None => output,
        }
    }
}

impl EncoderLayer {
    fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            self_attention: SelfAttention::new(&shape.attention(), init),
            self_attention_residual: Residual::new(&shape.residual(), init),
            feed_forward: FeedForward::new(&shape.feed_forward(), init),
            feed_forward_residual: Residual::new(&shape.residual(), init),
        }
    }

    /// Runs the layer on all positions.
    ///
    /// # Shapes
    /// - `input`: `[batch * src_len, d_model]`; output: as `input`
    pub fn forward(
        &self,
        input: Tensor<2>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        let shared = AttentionInput {
            rotation,
            ..AttentionInput::new(mask)
        };
        let attended = self.self_attention_residual.forward(input, |x| {
            self.self_attention
                .forward(x, &shared, AttentionKind::Encoder, watch)
        });
        self.feed_forward_residual
            .forward(attended, |x| self.feed_forward.forward(x))
    }

    /// Runs the layer on one more position of every row.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    fn advance(
        &self,
        input: Tensor<2>,
        rotation: Option<&Rotation>,
        past: &mut Option<KeyValue>,
    ) -> Tensor<2> {
        let attended = self.self_attention_residual.forward(input, |x| {
            self.self_attention.advance(x, rotation, None, past)
        });
        self.feed_forward_residual
            .forward(attended, |x| self.feed_forward.forward(x))
    }
}
