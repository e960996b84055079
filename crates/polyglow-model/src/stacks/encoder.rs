//! The encoder: self-attention and feed-forward, layer upon layer (Vaswani et al., 2017, section
//! 3.1).

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use crate::attention::{AttentionKind, KeyValue, SelfAttention, Watch, reborrow};
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
    /// The final norm of pre-norm, which leaves the last sum unnormalized.
    pub norm: Option<LayerNorm>,
}

/// Self-attention, then feed-forward.
#[derive(Module, Debug)]
pub struct EncoderLayer {
    /// Every source position looks at every other.
    pub self_attention: SelfAttention,
    /// Around the self-attention.
    pub self_attention_residual: Residual,
    /// The position-wise block.
    pub feed_forward: FeedForward,
    /// Around the feed-forward block.
    pub feed_forward_residual: Residual,
}

impl Encoder {
    /// `num_layers` layers of the configured kind.
    pub fn new(shape: &TransformerShape, num_layers: usize, init: &mut ParamInit) -> Self {
        Self {
            layers: (0..num_layers)
                .map(|_| EncoderLayer::new(shape, init))
                .collect(),
            norm: (shape.norm == Norm::Pre).then(|| LayerNorm::new(shape.d_model, init)),
        }
    }

    /// Shows each layer's weights to `watch`.
    ///
    /// # Shapes
    /// - `input`: `[batch, src_len, d_model]`; output: as `input`
    /// - `mask`: `[batch, 1, 1, src_len]`
    pub fn forward(
        &self,
        input: Tensor<3>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
        mut watch: Watch<'_>,
    ) -> Tensor<3> {
        let shape = input.dims();
        let next = |hidden, layer: &EncoderLayer| {
            layer.forward(hidden, mask, rotation, reborrow(&mut watch))
        };
        self.finish(self.layers.iter().fold(input.flatten(0, 1), next))
            .reshape(shape)
    }

    /// The state after each layer of [`Self::forward`], from the lowest; the last is its output.
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
        states.pop();
        states.push(self.finish(hidden).reshape(shape));
        states
    }

    /// One more position, which may look at itself and at all of `past`; each layer's keys and
    /// values are added there.
    ///
    /// # Shapes
    /// - `input`: `[rows, 1, d_model]`; output: as `input`
    pub fn advance(
        &self,
        input: Tensor<3>,
        rotation: Option<&Rotation>,
        past: &mut [Option<KeyValue>],
    ) -> Tensor<3> {
        let next = |hidden, (layer, past): (&EncoderLayer, &mut Option<KeyValue>)| {
            layer.advance(hidden, rotation, past)
        };
        self.finish(
            self.layers
                .iter()
                .zip(past)
                .fold(input.squeeze_dim(1), next),
        )
        .unsqueeze_dim(1)
    }

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
            self_attention: SelfAttention::new(shape, init),
            self_attention_residual: Residual::new(shape, init),
            feed_forward: FeedForward::new(shape, init),
            feed_forward_residual: Residual::new(shape, init),
        }
    }

    /// # Shapes
    /// - `input`: `[batch * src_len, d_model]`; output: as `input`
    pub fn forward(
        &self,
        input: Tensor<2>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        let attended = self.self_attention_residual.forward(input, |x| {
            self.self_attention
                .forward(x, mask, rotation, AttentionKind::Encoder, watch)
        });
        self.feed_forward_residual
            .forward(attended, |x| self.feed_forward.forward(x))
    }

    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    fn advance(
        &self,
        input: Tensor<2>,
        rotation: Option<&Rotation>,
        past: &mut Option<KeyValue>,
    ) -> Tensor<2> {
        let attended = self
            .self_attention_residual
            .forward(input, |x| self.self_attention.advance(x, rotation, past));
        self.feed_forward_residual
            .forward(attended, |x| self.feed_forward.forward(x))
    }
}
