//! What CTranslate2 calls our parts.

use crate::part::{Block, Part};

/// The name of a part; its numbers are under it, as `weight` and `bias`, or `gamma` and `beta`.
pub(super) fn name(part: Part, gated: bool) -> String {
    let Part {
        stack,
        layer,
        block,
    } = part;
    let place = match block {
        Block::SelfAttention => "self_attention/linear_0",
        Block::SelfOutput => "self_attention/linear_1",
        Block::SelfNorm => "self_attention/layer_norm",
        Block::CrossQuery => "attention/linear_0",
        Block::CrossKeyValue => "attention/linear_1",
        Block::CrossOutput => "attention/linear_2",
        Block::CrossNorm => "attention/layer_norm",
        // With a gate, the first map is the one that goes through the activation.
        Block::Inner if gated => "ffn/linear_0_noact",
        Block::Inner | Block::Gate => "ffn/linear_0",
        Block::Outer => "ffn/linear_1",
        Block::FeedForwardNorm => "ffn/layer_norm",
        Block::LastNorm => return format!("{}/layer_norm", stack.name()),
    };
    format!("{}/layer_{layer}/{place}", stack.name())
}

/// The embeddings of the source.
pub(super) const SRC_EMBEDDING: &str = "encoder/embeddings_0/weight";
/// The embeddings of the target.
pub(super) const TGT_EMBEDDING: &str = "decoder/embeddings/weight";
/// The output projection.
pub(super) const OUTPUT: &str = "decoder/projection/weight";
/// What is added to the scores.
pub(super) const OUTPUT_BIAS: &str = "decoder/projection/bias";

/// The table of positions of a stack.
pub(super) fn positions(stack: &str) -> String {
    format!("{stack}/position_encodings/encodings")
}
