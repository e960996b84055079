//! The shape of a model: its architecture, sizes and variants.

use super::{
    CaptionerShape, EncoderShape, LmShape, RnnLmShape, RnnShape, SkipGramShape, Task,
    TransformerShape, VitShape, Vocabulary,
};
use crate::attention::AttentionKind;
use crate::config::recurrent::Score;
use crate::precision::Precision;
use crate::registry::RegisteredShape;

/// The complete shape of a model, see [`super::ModelConfig::shape`].
#[derive(Clone, Debug, PartialEq)]
pub enum ModelShape {
    /// The shape of an encoder-decoder Transformer.
    Transformer(TransformerShape),
    /// The shape of a recurrent encoder-decoder.
    Rnn(RnnShape),
    /// The shape of a decoder-only Transformer.
    Lm(LmShape),
    /// The shape of a recurrent language model.
    RnnLm(RnnLmShape),
    /// The shape of word vectors.
    SkipGram(SkipGramShape),
    /// The shape of an encoder of text with a head.
    Encoder(EncoderShape),
    /// The shape of a Vision Transformer.
    Vit(VitShape),
    /// The shape of a captioner.
    Captioner(CaptionerShape),
    /// The shape of a model of a registered architecture.
    Registered(RegisteredShape),
}

/// The part of a shape that describes its layers, which several architectures share.
enum Stack<'a> {
    Transformer(&'a mut TransformerShape),
    Rnn(&'a mut RnnShape),
    Words(&'a mut SkipGramShape),
    Registered(&'a mut RegisteredShape),
}

impl ModelShape {
    /// Sets the precision of products; word vectors have none.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        match self.stack_mut() {
            Stack::Transformer(stack) => stack.precision = precision,
            Stack::Rnn(stack) => stack.precision = precision,
            Stack::Words(_) => {}
            Stack::Registered(shape) => shape.precision = precision,
        }
        if let Self::Captioner(CaptionerShape {
            recurrent: Some(layers),
            ..
        })
        | Self::Encoder(EncoderShape {
            recurrent: Some(layers),
            ..
        }) = &mut self
        {
            layers.precision = precision;
        }
        self
    }

    /// Raises the maximum length to at least `len` tokens, EOS included.
    #[must_use]
    pub fn with_room_for(mut self, len: usize) -> Self {
        let max_len = match self.stack_mut() {
            Stack::Transformer(stack) => &mut stack.max_len,
            Stack::Rnn(stack) => &mut stack.vocabulary.max_len,
            Stack::Words(shape) => &mut shape.vocabulary.max_len,
            Stack::Registered(shape) => &mut shape.vocabulary.max_len,
        };
        *max_len = len.max(*max_len);
        self
    }

    fn stack_mut(&mut self) -> Stack<'_> {
        match self {
            Self::Transformer(stack)
            | Self::Lm(LmShape { stack })
            | Self::Encoder(EncoderShape { stack, .. })
            | Self::Vit(VitShape { stack, .. })
            | Self::Captioner(CaptionerShape { stack, .. }) => Stack::Transformer(stack),
            Self::Rnn(stack) | Self::RnnLm(RnnLmShape { stack }) => Stack::Rnn(stack),
            Self::SkipGram(shape) => Stack::Words(shape),
            Self::Registered(shape) => Stack::Registered(shape),
        }
    }

    /// The task of its models.
    pub fn task(&self) -> Task {
        match self {
            Self::Transformer(_) | Self::Rnn(_) => Task::Translation,
            Self::Lm(_) | Self::RnnLm(_) => Task::Language,
            Self::SkipGram(_) => Task::Words,
            Self::Encoder(EncoderShape { head, .. }) => head.task(),
            Self::Vit(_) => Task::Images,
            Self::Captioner(_) => Task::Captions,
            Self::Registered(shape) => shape.config.architecture().task(),
        }
    }

    /// Width of every hidden state.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Transformer(stack)
            | Self::Lm(LmShape { stack })
            | Self::Encoder(EncoderShape { stack, .. })
            | Self::Vit(VitShape { stack, .. })
            | Self::Captioner(CaptionerShape { stack, .. }) => stack.d_model,
            Self::Rnn(stack) | Self::RnnLm(RnnLmShape { stack }) => stack.d_model,
            Self::SkipGram(shape) => shape.d_model,
            Self::Registered(shape) => shape.config.d_model(),
        }
    }

    /// The sizes and ids that the data decides.
    pub fn vocabulary(&self) -> Vocabulary {
        match self {
            Self::Transformer(stack)
            | Self::Lm(LmShape { stack })
            | Self::Encoder(EncoderShape { stack, .. }) => stack.vocabulary(),
            Self::Vit(VitShape { stack, patches, .. })
            | Self::Captioner(CaptionerShape { stack, patches, .. }) => Vocabulary {
                image: Some(patches.image),
                ..stack.vocabulary()
            },
            Self::Rnn(stack) | Self::RnnLm(RnnLmShape { stack }) => stack.vocabulary,
            Self::SkipGram(shape) => shape.vocabulary,
            Self::Registered(shape) => shape.vocabulary,
        }
    }

    /// The number of layers and of heads that have attention weights of a kind; zeros if none.
    pub fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        match (self, kind) {
            (
                Self::Transformer(stack)
                | Self::Encoder(EncoderShape {
                    stack,
                    recurrent: None,
                    ..
                })
                | Self::Vit(VitShape { stack, .. })
                | Self::Captioner(CaptionerShape { stack, .. }),
                AttentionKind::Encoder,
            ) => (stack.num_encoder_layers, stack.num_heads),
            (
                Self::Transformer(stack)
                | Self::Captioner(CaptionerShape {
                    stack,
                    recurrent: None,
                    ..
                }),
                _,
            )
            | (Self::Lm(LmShape { stack }), AttentionKind::Decoder) => {
                (stack.num_decoder_layers, stack.num_heads)
            }
            (
                Self::Rnn(shape)
                | Self::Captioner(CaptionerShape {
                    recurrent: Some(shape),
                    ..
                }),
                AttentionKind::Cross,
            ) if shape.attention != Score::None => (1, 1),
            (Self::Registered(shape), _) => shape.attention_size(kind),
            _ => (0, 0),
        }
    }

    /// Floating-point operations of the matrix products of a forward pass: two for each
    /// multiplication.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        match self {
            Self::Transformer(shape) => shape.forward_flops(batch),
            Self::Rnn(shape) => shape.forward_flops(batch),
            Self::Lm(shape) => shape.forward_flops(batch),
            Self::RnnLm(RnnLmShape { stack }) => stack.forward_flops([batch[0], 0, batch[2]]),
            Self::SkipGram(shape) => shape.forward_flops(batch),
            Self::Encoder(shape) => shape.forward_flops(batch),
            Self::Vit(shape) => shape.forward_flops(batch),
            Self::Captioner(shape) => shape.forward_flops(batch),
            Self::Registered(shape) => shape.forward_flops(batch),
        }
    }

    /// The part of [`Self::forward_flops`] that the output layer takes for one target position.
    pub fn output_flops(&self) -> f64 {
        2.0 * (self.d_model() * self.vocabulary().tgt_size) as f64
    }

    /// Estimates the number of elements that a forward pass keeps for the backward pass, with the
    /// kernels of polyglow-kernels or without.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        let text = [batch[0], 0, batch[2]];
        match self {
            Self::Transformer(shape) => shape.activations(batch, kernels),
            Self::Rnn(shape) => shape.activations(batch, kernels),
            Self::Lm(LmShape { stack }) => stack.activations(text, kernels),
            Self::RnnLm(RnnLmShape { stack }) => stack.activations(text, kernels),
            Self::SkipGram(shape) => shape.activations(batch),
            Self::Encoder(shape) => shape.activations(batch, kernels),
            Self::Vit(shape) => shape.activations(batch, kernels),
            Self::Captioner(shape) => shape.activations(batch, kernels),
            Self::Registered(shape) => shape.activations(batch),
        }
    }
}
