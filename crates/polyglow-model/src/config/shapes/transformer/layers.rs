//! Configs of a Transformer's layers, its positions and its rotation, made from its shape.

use burn::tensor::Device;

use super::TransformerShape;
use crate::attention::AttentionConfig;
use crate::config::Position;
use crate::feed_forward::FeedForwardConfig;
use crate::parameter::init::ParamInit;
use crate::position::{PositionEmbedding, Rotation, WAVELENGTHS};
use crate::residual::ResidualConfig;

impl TransformerShape {
    /// The config of self-attention and of cross-attention.
    pub fn attention(&self) -> AttentionConfig {
        AttentionConfig {
            dropout: self.attention_dropout,
            ..AttentionConfig::new(self.d_model, self.num_heads)
        }
    }

    /// The config of the feed-forward blocks.
    pub fn feed_forward(&self) -> FeedForwardConfig {
        FeedForwardConfig {
            d_model: self.d_model,
            d_ff: self.d_ff,
            activation: self.activation,
            bias: true,
            dropout: self.activation_dropout,
        }
    }

    /// The config of the residual connections.
    pub fn residual(&self) -> ResidualConfig {
        ResidualConfig {
            d_model: self.d_model,
            norm: self.norm,
            dropout: self.dropout,
        }
    }

    /// Makes the positions of one side.
    pub fn position_embedding(&self, init: &mut ParamInit) -> PositionEmbedding {
        PositionEmbedding::new(self.position, self.max_len, self.d_model, init)
    }

    /// Returns the rotation of `len` positions from `start` on, on `device`; `None` unless positions
    /// are rotary.
    pub fn rotation(&self, start: usize, len: usize, device: &Device) -> Option<Rotation> {
        let is_rotary = self.position == Position::Rotary;
        let positions = start..start + len;
        is_rotary.then(|| Rotation::new(self.head_dim(), WAVELENGTHS, positions, device))
    }
}
