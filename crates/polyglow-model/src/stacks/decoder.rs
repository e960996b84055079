//! The decoder: masked self-attention, attention to the encoder, feed-forward (Vaswani et al.,
//! 2017, section 3.1).

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use crate::attention::{
    AttentionInput, AttentionKind, CrossAttention, SelfAttention, Watch, reborrow,
};
use crate::cache::{DecoderCache, LayerCache};
use crate::config::{Norm, TransformerShape};
use crate::feed_forward::FeedForward;
use crate::layer_norm::LayerNorm;
use crate::parameter::init::ParamInit;
use crate::position::Rotation;
use crate::residual::Residual;

/// A stack of decoder layers.
#[derive(Module, Debug)]
pub struct Decoder {
    /// From the embedding upwards.
    pub layers: Vec<DecoderLayer>,
    /// The final norm with pre-norm, which leaves the last residual sum unnormalized.
    pub norm: Option<LayerNorm>,
}

/// Self-attention, cross-attention, feed-forward.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    /// Attention from every target position to itself and to those before it.
    pub self_attention: SelfAttention,
    /// The residual connection around the self-attention.
    pub self_attention_residual: Residual,
    /// Attention from every target position to the source.
    pub cross_attention: CrossAttention,
    /// The residual connection around the cross-attention.
    pub cross_attention_residual: Residual,
    /// The position-wise block.
    pub feed_forward: FeedForward,
    /// The residual connection around the feed-forward block.
    pub feed_forward_residual: Residual,
}

/// The inputs that all decoder layers of a batch share.
#[derive(Clone, Debug)]
pub struct DecoderInput<'a> {
    /// The encoder's output, `[batch, src_len, d_model]`.
    pub memory: &'a Tensor<3>,
    /// `[batch, 1, 1, src_len]`, `true` on source padding.
    pub src_pad_mask: &'a Tensor<4, Bool>,
    /// `[batch, 1, tgt_len, tgt_len]`, `true` on the future and on target padding.
    pub causal_mask: &'a Tensor<4, Bool>,
    /// The rotation of the target positions, if they are rotary.
    pub rotation: Option<&'a Rotation>,
}

impl Decoder {
    /// A stack of the configured number of layers.
    pub fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            layers: (0..shape.num_decoder_layers)
                .map(|_| DecoderLayer::new(shape, init))
                .collect(),
            norm: (shape.norm == Norm::Pre).then(|| LayerNorm::new(shape.d_model, init)),
        }
    }

    /// Runs all layers on all target positions at once. Calls `watch` with the attention weights of
    /// each layer, first those of the self-attention, then those of the cross-attention.
    ///
    /// # Shapes
    /// - `target`: `[batch, tgt_len, d_model]`; output: as `target`
    pub fn forward(
        &self,
        target: Tensor<3>,
        input: &DecoderInput<'_>,
        mut watch: Watch<'_>,
    ) -> Tensor<3> {
        let shape = target.dims();
        let memory = input.memory.clone().flatten(0, 1);
        if let Some(layer) = self.layers.first() {
            // Every layer projects the same memory, so it is rounded to 16 bits once for all.
            layer.cross_attention.key_value.round_once(&memory);
        }
        let mut hidden = target.flatten(0, 1);
        for layer in &self.layers {
            hidden = layer.forward(hidden, memory.clone(), input, reborrow(&mut watch));
        }
        self.finish(hidden).reshape(shape)
    }

    /// Creates a cache over the encoder's output, without target positions. Keys and values of the
    /// source are computed here, once.
    ///
    /// # Shapes
    /// - `memory`: `[rows, src_len, d_model]`; `src_pad_mask`: `[rows, 1, 1, src_len]`
    pub fn start(&self, memory: &Tensor<3>, src_pad_mask: &Tensor<4, Bool>) -> DecoderCache {
        let layers = self
            .layers
            .iter()
            .map(|layer| LayerCache {
                target: None,
                source: layer.cross_attention.key_value(memory.clone()),
            })
            .collect();
        DecoderCache::new(layers, src_pad_mask.clone())
    }

    /// Runs all layers on one more target position of every row.
    ///
    /// # Shapes
    /// - `target`: `[rows, 1, d_model]`; output: as `target`
    pub fn advance(
        &self,
        target: Tensor<3>,
        rotation: Option<&Rotation>,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        let mut hidden = target.squeeze_dim(1);
        for (layer, past) in self.layers.iter().zip(&mut cache.layers) {
            hidden = layer.advance(hidden, rotation, past, &cache.src_pad_mask);
        }
        cache.len += 1;
        self.finish(hidden).unsqueeze_dim(1)
    }

    /// Applies the final norm, if there is one.
    fn finish(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.norm {
            Some(norm) => norm.forward(hidden),
            None => hidden,
        }
    }
}

impl DecoderLayer {
    fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            self_attention: SelfAttention::new(&shape.attention(), init),
            self_attention_residual: Residual::new(&shape.residual(), init),
            cross_attention: CrossAttention::new(&shape.attention(), init),
            cross_attention_residual: Residual::new(&shape.residual(), init),
            feed_forward: FeedForward::new(&shape.feed_forward(), init),
            feed_forward_residual: Residual::new(&shape.residual(), init),
        }
    }

    /// Runs the layer on all target positions.
    ///
    /// # Shapes
    /// - `target`: `[batch * tgt_len, d_model]`; `memory`: that of `input`,
    ///   `[batch * src_len, d_model]`; output: as `target`
    fn forward(
        &self,
        target: Tensor<2>,
        memory: Tensor<2>,
        input: &DecoderInput<'_>,
        mut watch: Watch<'_>,
    ) -> Tensor<2> {
        let DecoderInput {
            src_pad_mask,
            causal_mask,
            rotation,
            ..
        } = *input;
        let shared = AttentionInput {
            rotation,
            ..AttentionInput::new(causal_mask)
        };
        let attended = self.self_attention_residual.forward(target, |x| {
            let watch = reborrow(&mut watch);
            self.self_attention
                .forward(x, &shared, AttentionKind::Decoder, watch)
        });
        let crossed = self.cross_attention_residual.forward(attended, |x| {
            self.cross_attention.forward(x, memory, src_pad_mask, watch)
        });
        self.feed_forward_residual
            .forward(crossed, |x| self.feed_forward.forward(x))
    }

    /// Runs the layer on one more position of every row. The rows of a sentence attend to its
    /// source together, as if they were positions of one sequence, so that its keys and values are
    /// in memory once.
    ///
    /// # Shapes
    /// - `target`: `[sentences * width, d_model]`; `src_pad_mask`: `[sentences, 1, 1, src_len]`;
    ///   output: as `target`
    fn advance(
        &self,
        target: Tensor<2>,
        rotation: Option<&Rotation>,
        past: &mut LayerCache,
        src_pad_mask: &Tensor<4, Bool>,
    ) -> Tensor<2> {
        let LayerCache {
            target: own,
            source,
        } = past;
        let attended = self.self_attention_residual.forward(target, |x| {
            self.self_attention.advance(x, rotation, None, own)
        });
        let crossed = self.cross_attention_residual.forward(attended, |x| {
            self.cross_attention.advance(x, source, src_pad_mask)
        });
        self.feed_forward_residual
            .forward(crossed, |x| self.feed_forward.forward(x))
    }
}
