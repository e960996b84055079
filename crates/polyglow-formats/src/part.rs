//! The parts of polyglow's encoder-decoder Transformer: the names and sizes of their parameters,
//! and which of their axes belong to the residual stream.
//!
//! Each format maps a [`Part`] to a name of its own, and so needs to know no more of how polyglow's
//! layers are made.

use polyglow_model::{
    Activation, ModelConfig, Norm, Position, Precision, TieEmbeddings, Transformer,
    TransformerShape,
};
use polyglow_predict::error::Result;

use super::array::Arrays;

/// The encoder or the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Encoder,
    Decoder,
}

/// The blocks of a layer that have parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Queries, keys and values of self-attention, side by side in one matrix.
    SelfAttention,
    /// The projection of the heads back into the residual stream.
    SelfOutput,
    SelfNorm,
    /// The queries of the decoder's attention to the encoder.
    CrossQuery,
    /// Its keys and values, side by side in one matrix.
    CrossKeyValue,
    CrossOutput,
    CrossNorm,
    /// The first map of the feed-forward block, from `d_model` to `d_ff`.
    Inner,
    /// The map of `SwiGLU` that goes through the activation and multiplies `Inner`.
    Gate,
    /// The last map of the feed-forward block, back to `d_model`.
    Outer,
    FeedForwardNorm,
    /// The norm after the last layer, which belongs to no layer.
    LastNorm,
}

/// The relation of a part to the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A linear map that reads the residual stream: the rows of its matrix are the stream's elements.
    Reads,
    /// A linear map that writes to it: the columns of its matrix and its bias are the elements.
    Writes,
    /// A norm over it.
    Norm,
}

/// A linear map or a norm of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) stack: Stack,
    pub(crate) layer: usize,
    pub(crate) block: Block,
}

impl Stack {
    pub(crate) const BOTH: [Self; 2] = [Self::Encoder, Self::Decoder];

    /// The name in those of parameters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
        }
    }

    /// The name of its side in those of embeddings and positions.
    pub(crate) fn side(self) -> &'static str {
        match self {
            Self::Encoder => "src",
            Self::Decoder => "tgt",
        }
    }

    pub(crate) fn num_layers(self, shape: &TransformerShape) -> usize {
        match self {
            Self::Encoder => shape.num_encoder_layers,
            Self::Decoder => shape.num_decoder_layers,
        }
    }
}

impl Block {
    /// The name in those of parameters.
    fn name(self) -> &'static str {
        match self {
            Self::SelfAttention => "self_attention.qkv",
            Self::SelfOutput => "self_attention.output",
            Self::SelfNorm => "self_attention_residual.norm",
            Self::CrossQuery => "cross_attention.query",
            Self::CrossKeyValue => "cross_attention.key_value",
            Self::CrossOutput => "cross_attention.output",
            Self::CrossNorm => "cross_attention_residual.norm",
            Self::Inner => "feed_forward.inner",
            Self::Gate => "feed_forward.gate",
            Self::Outer => "feed_forward.outer",
            Self::FeedForwardNorm => "feed_forward_residual.norm",
            Self::LastNorm => "norm",
        }
    }

    pub(crate) fn role(self) -> Role {
        match self {
            Self::SelfAttention
            | Self::CrossQuery
            | Self::CrossKeyValue
            | Self::Inner
            | Self::Gate => Role::Reads,
            Self::SelfOutput | Self::CrossOutput | Self::Outer => Role::Writes,
            Self::SelfNorm | Self::CrossNorm | Self::FeedForwardNorm | Self::LastNorm => Role::Norm,
        }
    }
}

impl Part {
    /// The prefix of its parameters' names.
    pub(crate) fn name(self) -> String {
        let Self {
            stack,
            layer,
            block,
        } = self;
        match block {
            Block::LastNorm => format!("{}.{}", stack.name(), block.name()),
            _ => format!("{}.layers.{layer}.{}", stack.name(), block.name()),
        }
    }

    /// The names of its two parameters: matrix and bias of a linear map, gamma and beta of a norm.
    pub(crate) fn parameters(self) -> [String; 2] {
        let leaves = if self.block.role() == Role::Norm {
            ["gamma", "beta"]
        } else {
            ["weight", "bias"]
        };
        leaves.map(|leaf| format!("{}.{leaf}", self.name()))
    }

    /// The numbers of inputs and outputs of its linear map; 0 and the width of a norm.
    pub(crate) fn size(self, shape: &TransformerShape) -> [usize; 2] {
        let d_model = shape.d_model;
        let d_ff = shape.d_ff;
        match self.block {
            Block::SelfAttention => [d_model, 3 * d_model],
            Block::CrossKeyValue => [d_model, 2 * d_model],
            Block::SelfOutput | Block::CrossQuery | Block::CrossOutput => [d_model, d_model],
            Block::Inner | Block::Gate => [d_model, d_ff],
            Block::Outer => [d_ff, d_model],
            Block::SelfNorm | Block::CrossNorm | Block::FeedForwardNorm | Block::LastNorm => {
                [0, d_model]
            }
        }
    }
}

/// All linear maps and norms of the layers.
pub(crate) fn parts(shape: &TransformerShape) -> Vec<Part> {
    use Block::{
        CrossKeyValue, CrossNorm, CrossOutput, CrossQuery, FeedForwardNorm, Gate, Inner, LastNorm,
        Outer, SelfAttention, SelfNorm, SelfOutput,
    };

    let mut parts = Vec::new();
    for stack in Stack::BOTH {
        let mut blocks = vec![SelfAttention, SelfOutput, SelfNorm];
        if stack == Stack::Decoder {
            blocks.extend([CrossQuery, CrossKeyValue, CrossOutput, CrossNorm]);
        }
        blocks.extend([Inner, Outer, FeedForwardNorm]);
        if shape.activation == Activation::Swiglu {
            blocks.push(Gate);
        }
        for layer in 0..stack.num_layers(shape) {
            parts.extend(blocks.iter().map(|&block| Part {
                stack,
                layer,
                block,
            }));
        }
        if shape.norm == Norm::Pre {
            parts.push(Part {
                stack,
                layer: 0,
                block: LastNorm,
            });
        }
    }
    parts
}

/// The names of the embeddings, the source's first; one if all are tied.
pub(crate) fn embeddings(shape: &TransformerShape) -> Vec<&'static str> {
    if shape.tie_embeddings == TieEmbeddings::All {
        vec!["src_embedding.weight"]
    } else {
        vec!["src_embedding.weight", "tgt_embedding.weight"]
    }
}

/// The name of the matrix that embeds the target.
pub(crate) fn tgt_embedding(shape: &TransformerShape) -> &'static str {
    embeddings(shape).pop().unwrap_or("src_embedding.weight")
}

/// A shape whose fields are to be filled in from a foreign model.
pub(crate) fn blank_shape() -> TransformerShape {
    TransformerShape {
        src_vocab_size: 0,
        tgt_vocab_size: 0,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 0,
        d_model: 0,
        d_ff: 0,
        num_heads: 1,
        num_encoder_layers: 0,
        num_decoder_layers: 0,
        dropout: 0.0,
        attention_dropout: 0.0,
        activation_dropout: 0.0,
        activation: Activation::Relu,
        norm: Norm::Post,
        position: Position::Sinusoidal,
        tie_embeddings: TieEmbeddings::None,
        output_bias: false,
        precision: Precision::F32,
    }
}

/// The `[model]` table of a config for a shape.
pub(crate) fn model_config(shape: &TransformerShape) -> ModelConfig {
    ModelConfig {
        arch: Transformer::ARCH,
        d_model: Some(shape.d_model),
        d_ff: Some(shape.d_ff),
        num_heads: Some(shape.num_heads),
        num_encoder_layers: Some(shape.num_encoder_layers),
        num_decoder_layers: Some(shape.num_decoder_layers),
        dropout: Some(shape.dropout),
        attention_dropout: shape.attention_dropout,
        activation_dropout: shape.activation_dropout,
        activation: shape.activation,
        norm: shape.norm,
        position: shape.position,
        tie_embeddings: shape.tie_embeddings,
        output_bias: shape.output_bias,
        ..ModelConfig::default()
    }
}

/// Permutes the residual stream: element `i` of the result is element `order[i]` of what it was.
///
/// A network computes the same in any order of its hidden states, as long as everything that reads
/// or writes them agrees. So sinusoids in another order need no other code: the weights are
/// permuted to match.
///
/// # Errors
/// A parameter is missing.
pub(crate) fn reorder(
    arrays: &mut Arrays,
    shape: &TransformerShape,
    order: &[usize],
) -> Result<()> {
    // The residual stream is the rows of some parameters, and the columns of others.
    let mut by_row = Vec::new();
    let mut by_column = Vec::new();
    for part in parts(shape) {
        let [first, second] = part.parameters();
        match part.block.role() {
            Role::Reads => by_row.push(first),
            Role::Writes | Role::Norm => by_column.extend([first, second]),
        }
    }
    by_column.extend(embeddings(shape).into_iter().map(str::to_owned));
    if shape.tie_embeddings == TieEmbeddings::None {
        by_row.push("output.weight".to_owned());
    }
    if shape.position == Position::Learned {
        for stack in Stack::BOTH {
            by_column.push(format!("{}_position.weight", stack.side()));
        }
    }
    let rows: Vec<Option<usize>> = order.iter().copied().map(Some).collect();
    for name in by_row {
        let permuted = arrays.get(&name)?.rows(&rows);
        arrays.put(name, permuted);
    }
    for name in by_column {
        let permuted = arrays.get(&name)?.columns(order);
        arrays.put(name, permuted);
    }
    Ok(())
}

/// The order that puts all even elements first: from alternating sines and cosines to all sines,
/// then all cosines.
pub(crate) fn sines_first(d_model: usize) -> Vec<usize> {
    let even = (0..d_model).step_by(2);
    let odd = (1..d_model).step_by(2);
    even.chain(odd).collect()
}

/// The order that undoes [`sines_first`].
pub(crate) fn alternating(d_model: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(d_model);
    for index in 0..d_model {
        let first = if index.is_multiple_of(2) {
            0
        } else {
            d_model / 2
        };
        order.push(first + index / 2);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_undo_each_other() {
        let there = sines_first(6);
        let back = alternating(6);
        assert_eq!(there, [0, 2, 4, 1, 3, 5]);
        assert!(back.iter().map(|&index| there[index]).eq(0..6));
    }
}
