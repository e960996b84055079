//! The encoder of text with a head, for labels, for tags or for masked tokens (Devlin et al., 2019). Its
//! layers are those of a Transformer, or recurrent.

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor};

use crate::architecture::{Inspect, Predict};
use crate::attention::{AttentionMaps, Watch};
use crate::config::{EncoderShape, Pooling};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::inputs::Text;
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::mask::{padding_mask, padding_mask_behind};
use crate::parameter::init::ParamInit;
use crate::pooling::Pool;
use crate::position::{PositionEmbedding, Rotation};
use crate::recurrent::encoder::RecurrentEncoder;
use crate::side::Side;

/// An encoder of text with a head.
#[derive(Module, Debug)]
pub struct EncoderOnly {
    /// Vectors of the tokens; with a masked-token head, also the projection back to tokens.
    pub embedding: Embedding,
    /// Positions of the tokens.
    pub position: PositionEmbedding,
    /// Pools the states into one.
    pub pool: Pool,
    /// The layers.
    pub stack: TextEncoder,
    /// Projects the pooled state to the labels, or each state to the tags; `None` with a masked-token
    /// head.
    pub head: Option<Linear>,
    dropout: Dropout,
    #[module(skip)]
    shape: EncoderShape,
}

/// The layers of an encoder of text.
#[derive(Module, Debug)]
pub enum TextEncoder {
    /// Layers of self-attention.
    Transformer(Encoder),
    /// Bidirectional recurrent layers.
    Rnn(RecurrentEncoder),
}

impl EncoderOnly {
    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &EncoderShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        Self {
            embedding: Embedding::new(stack.src_vocab_size, stack.d_model, init),
            position: match &shape.recurrent {
                None => stack.position_embedding(init),
                Some(_) => PositionEmbedding::None(stack.d_model),
            },
            pool: Pool::new(shape.pooling, stack.d_model, init),
            stack: match &shape.recurrent {
                None => {
                    TextEncoder::Transformer(Encoder::new(stack, stack.num_encoder_layers, init))
                }
                Some(layers) => TextEncoder::Rnn(RecurrentEncoder::new(layers, init)),
            },
            head: (shape.head.has_weights())
                .then(|| Linear::new(stack.d_model, stack.tgt_vocab_size, init)),
            dropout: Dropout::new(stack.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &EncoderShape {
        &self.shape
    }

    /// As [`Predict::predict`]; calls `watch` with the attention weights of each layer.
    fn predict_watched(&self, Text { ids }: Text, watch: Watch<'_>) -> Prediction<'_> {
        let (input, mask, rotation) = self.embed(ids.clone());
        let (states, last) = match &self.stack {
            TextEncoder::Transformer(stack) => {
                (stack.forward(input, &mask, rotation.as_ref(), watch), None)
            }
            TextEncoder::Rnn(stack) => {
                let (mut layers, last) = stack.forward(input, &mask);
                let highest = layers.pop().expect("an encoder has at least one layer");
                (highest, Some(last))
            }
        };
        let projection = match &self.head {
            Some(head) => Projection::Own(head),
            None => Projection::Tied(&self.embedding),
        };
        if self.shape.head.reads_positions() {
            let states = self.pool.without_class(states);
            return projection.project(states.flatten(0, 1));
        }
        let pooled = match last {
            // The summary of the recurrent layers has already left padding out.
            Some(last) if self.shape.pooling == Pooling::Last => last,
            _ => {
                let pad_mask = padding_mask(&ids, self.shape.stack.src_pad_id);
                self.pool.forward(states, Some(pad_mask))
            }
        };
        projection.project(pooled)
    }

    /// Returns the input of the lowest layer, its mask and its rotation.
    fn embed(&self, ids: Tensor<2, Int>) -> (Tensor<3>, Tensor<4, Bool>, Option<Rotation>) {
        let EncoderShape { stack, .. } = &self.shape;
        let mask = padding_mask_behind(&ids, stack.src_pad_id, self.pool.num_before());
        let len = ids.dims()[1] + self.pool.num_before();
        let rotation = stack.rotation(0, len, &ids.device());
        // The class vector has no position: it is put before positions are counted from 0.
        let embedded = self.position.add(self.embedding.forward(ids), 0);
        let input = self.dropout.forward(self.pool.prepend(embedded));
        (input, mask, rotation)
    }
}

impl Predict<Text> for EncoderOnly {
    /// Scores of the labels of each text, `[batch, tgt_vocab_size]`; with a head that reads every
    /// position, scores of the tokens or tags there, `[batch * len, tgt_vocab_size]`.
    fn predict(&self, text: Text) -> Prediction<'_> {
        self.predict_watched(text, None)
    }
}

impl Inspect for EncoderOnly {
    type Inputs = Text;

    fn attention(&self, text: Text) -> AttentionMaps {
        let mut encoder = Vec::new();
        self.predict_watched(text, Some(&mut |_, weights| encoder.push(weights)));
        AttentionMaps {
            encoder,
            ..AttentionMaps::default()
        }
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let (input, mask, rotation) = self.embed(ids);
        let states = match &self.stack {
            TextEncoder::Transformer(stack) => stack.states(input, &mask, rotation.as_ref()),
            TextEncoder::Rnn(stack) => stack.forward(input, &mask).0,
        };
        states
            .into_iter()
            .map(|states| self.pool.without_class(states))
            .collect()
    }

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
