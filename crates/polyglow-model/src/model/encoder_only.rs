//! The encoder with a head on one screen: what a text is, or which tokens are hidden in it (Devlin et al., 2019).

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor};

use super::{Architecture, AttentionMaps, Side, of_encoder};
use crate::attention::Watch;
use crate::config::{EncoderConfig, Head, ModelShape};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::mask::padding_mask_behind;
use crate::pooling::Pool;
use crate::position::{PositionEmbedding, Rotation};
use crate::prediction::{Prediction, Projection};

/// An encoder of text with a head.
#[derive(Module, Debug)]
pub struct EncoderOnly {
    /// Vectors of the tokens; the projection back to tokens, too, under a head of masked tokens.
    pub embedding: Embedding,
    /// Where a token stands.
    pub position: PositionEmbedding,
    /// How states become one.
    pub pool: Pool,
    /// The layers.
    pub stack: Encoder,
    /// From the pooled state to the labels; none under a head of masked tokens.
    pub head: Option<Linear>,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: EncoderConfig,
}

impl EncoderOnly {
    /// A model with initial values of one kind.
    pub(crate) fn build(config: &EncoderConfig, init: ParamInit) -> Self {
        let stack = &config.stack;
        let init = &mut init.with_precision(stack.precision);
        Self {
            embedding: Embedding::new(stack.src_vocab_size, stack.d_model, init),
            position: PositionEmbedding::new(stack, init),
            pool: Pool::new(config.pooling, stack.d_model, init),
            stack: Encoder::new(stack, stack.num_encoder_layers, init),
            head: (config.head == Head::Classification).then(|| Linear::new(stack.d_model, stack.tgt_vocab_size, init)),
            dropout: Dropout::new(stack.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// The shape it was built with.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Scores of the labels of each text, or of the tokens at each position; shows the attention weights to `watch`.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`, ids with padding behind
    /// - output: `[batch, tgt_vocab_size]`, or under a head of masked tokens `[batch * src_len, src_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, watch: Watch<'_>) -> Tensor<2> {
        self.predict_watched(src, watch).logits()
    }

    /// What [`Self::forward`] makes scores of.
    fn predict_watched(&self, src: Tensor<2, Int>, watch: Watch<'_>) -> Prediction<'_> {
        let (input, mask, rotation) = self.embed(src.clone());
        let states = self.stack.forward(input, &mask, rotation.as_ref(), watch);
        match &self.head {
            Some(head) => {
                Projection::Own(head).of(self.pool.forward(states, Some((src, self.config.stack.src_pad_id))))
            }
            None => Projection::Tied(&self.embedding).of(self.pool.rest(states).flatten(0, 1)),
        }
    }

    /// What stands at each position of a text after each layer, from the lowest.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; output: `[batch, src_len, d_model]` each
    pub fn states(&self, src: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let (input, mask, rotation) = self.embed(src);
        let states = self.stack.states(input, &mask, rotation.as_ref());
        states.into_iter().map(|states| self.pool.rest(states)).collect()
    }

    /// What the lowest layer is given: the input, where it may look, and how it is turned.
    fn embed(&self, src: Tensor<2, Int>) -> (Tensor<3>, Tensor<4, Bool>, Option<Rotation>) {
        let EncoderConfig { stack: config, .. } = &self.config;
        let mask = padding_mask_behind(&src, config.src_pad_id, self.pool.num_before());
        let len = src.dims()[1] + self.pool.num_before();
        let rotation = Rotation::new(config, 0, len, &src.device());
        let embedded = self.position.add(self.embedding.forward(src), 0);
        (self.dropout.forward(self.pool.prepend(embedded)), mask, rotation)
    }
}

impl Architecture for EncoderOnly {
    fn shape(&self) -> ModelShape {
        ModelShape::Encoder(self.config.clone())
    }

    fn on_host(&self) -> bool {
        self.on_host
    }

    fn embedding(&self, _: Side) -> &Embedding {
        &self.embedding
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.states(ids)
    }

    fn predict(&self, src: Tensor<2, Int>, _: Tensor<2, Int>) -> Prediction<'_> {
        self.predict_watched(src, None)
    }

    fn attention(&self, src: Tensor<2, Int>, _: Tensor<2, Int>) -> AttentionMaps {
        of_encoder(|watch| self.forward(src, watch))
    }
}
