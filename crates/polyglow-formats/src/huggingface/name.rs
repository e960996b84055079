//! The names that MarianMT and Pegasus have for our parts.

use crate::part::{Block, Part};

/// The names of a part, without `weight` and `bias`; several where ours are side by side in one
/// matrix.
pub(super) fn names(part: Part) -> Vec<String> {
    let stack = part.stack.name();
    let layer = part.layer;
    let names: &[&str] = match part.block {
        Block::SelfAttention => &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        Block::SelfOutput => &["self_attn.out_proj"],
        Block::SelfNorm => &["self_attn_layer_norm"],
        Block::CrossQuery => &["encoder_attn.q_proj"],
        Block::CrossKeyValue => &["encoder_attn.k_proj", "encoder_attn.v_proj"],
        Block::CrossOutput => &["encoder_attn.out_proj"],
        Block::CrossNorm => &["encoder_attn_layer_norm"],
        Block::Inner => &["fc1"],
        // Models with gates are refused before.
        Block::Gate => &["gate"],
        Block::Outer => &["fc2"],
        // The last norm of a layer; that of the stack is below.
        Block::FeedForwardNorm => &["final_layer_norm"],
        Block::LastNorm => return vec![format!("model.{stack}.layer_norm")],
    };
    let prefix = format!("model.{stack}.layers.{layer}");
    names
        .iter()
        .map(|name| format!("{prefix}.{name}"))
        .collect()
}

/// The embedding of both sides.
pub(super) const SHARED: &str = "model.shared.weight";
/// The embedding of the source.
pub(super) const SRC_EMBEDDING: &str = "model.encoder.embed_tokens.weight";
/// The embedding of the target.
pub(super) const TGT_EMBEDDING: &str = "model.decoder.embed_tokens.weight";
/// The output projection, if it is a matrix of its own.
pub(super) const OUTPUT: &str = "lm_head.weight";
/// The output's bias, `[1, vocab_size]`.
pub(super) const OUTPUT_BIAS: &str = "final_logits_bias";
/// The tables of sinusoids, which readers compute themselves.
pub(super) const POSITIONS: [&str; 2] = [
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
];
