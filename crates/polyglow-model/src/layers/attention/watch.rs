//! Attention weights, for tools that inspect models.

use burn::tensor::Tensor;

/// The positions that attend, and those that they attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKind {
    /// Source positions attend to source positions.
    Encoder,
    /// Target positions attend to target positions.
    Decoder,
    /// Target positions attend to source positions.
    Cross,
}

/// A callback for the weights of each layer as they are computed,
/// `[batch, num_heads, query_len, key_len]`, from the lowest layer upwards. With `None`, a kernel
/// may run that never holds them in memory.
pub type Watch<'a> = Option<&'a mut dyn FnMut(AttentionKind, Tensor<4>)>;

/// Lends the callback to one of several layers, which a model calls one after the other.
pub fn reborrow<'a>(watch: &'a mut Watch<'_>) -> Watch<'a> {
    match watch {
        Some(watch) => Some(&mut **watch),
        None => None,
    }
}

/// Attention weights, one entry per layer from the lowest upwards; each row of them sums to 1.
#[derive(Clone, Debug, Default)]
pub struct AttentionMaps {
    /// `[batch, num_heads, src_len, src_len]` each.
    pub encoder: Vec<Tensor<4>>,
    /// `[batch, num_heads, tgt_len, tgt_len]` each.
    pub decoder: Vec<Tensor<4>>,
    /// `[batch, num_heads, tgt_len, src_len]` each.
    pub cross: Vec<Tensor<4>>,
}

impl AttentionMaps {
    /// Adds the weights of the next layer.
    pub(crate) fn push(&mut self, kind: AttentionKind, weights: Tensor<4>) {
        let layers = match kind {
            AttentionKind::Encoder => &mut self.encoder,
            AttentionKind::Decoder => &mut self.decoder,
            AttentionKind::Cross => &mut self.cross,
        };
        layers.push(weights);
    }
}
