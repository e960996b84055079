//! The names that CTranslate2 has for our parts.

use crate::part::{Block, Part};

/// The name of a part, without `/weight` and `/bias`, or `/gamma` and `/beta`. `gated` says that the
/// feed-forward blocks have gates.
pub(super) fn name(part: Part, gated: bool) -> String {
    let stack = part.stack.name();
    let layer = part.layer;
    // CTranslate2 numbers the linear maps of a sublayer in the order of their use. Of attention to
    // the encoder, the queries are a map of their own, as ours are.
    let name = match part.block {
        Block::SelfAttention => "self_attention/linear_0",
        Block::SelfOutput => "self_attention/linear_1",
        Block::SelfNorm => "self_attention/layer_norm",
        Block::CrossQuery => "attention/linear_0",
        Block::CrossKeyValue => "attention/linear_1",
        Block::CrossOutput => "attention/linear_2",
        Block::CrossNorm => "attention/layer_norm",
        // With a gate, their `linear_0` is the map that goes through the activation: our gate.
        Block::Inner if gated => "ffn/linear_0_noact",
        Block::Inner | Block::Gate => "ffn/linear_0",
        Block::Outer => "ffn/linear_1",
        Block::FeedForwardNorm => "ffn/layer_norm",
        Block::LastNorm => return format!("{stack}/layer_norm"),
    };
    format!("{stack}/layer_{layer}/{name}")
}

/// The embeddings of the source.
pub(super) const SRC_EMBEDDING: &str = "encoder/embeddings_0/weight";
/// The embeddings of the target.
pub(super) const TGT_EMBEDDING: &str = "decoder/embeddings/weight";
/// The output projection.
pub(super) const OUTPUT: &str = "decoder/projection/weight";
/// The output's bias.
pub(super) const OUTPUT_BIAS: &str = "decoder/projection/bias";

/// The table of positions of a stack.
pub(super) fn positions(stack: &str) -> String {
    format!("{stack}/position_encodings/encodings")
}
