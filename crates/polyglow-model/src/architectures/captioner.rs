//! The captioner: an encoder of images and a decoder that describes them (Xu et al., 2015, "Show,
//! attend and tell").

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};

use super::RnnCache;
use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::{AttentionKind, AttentionMaps, Watch, reborrow};
use crate::cache::DecoderCache;
use crate::config::{CaptionerShape, TieEmbeddings};
use crate::decoder::{Decoder, DecoderInput};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::inputs::{self, Pair};
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::mask::{causal_padding_mask, no_mask};
use crate::parameter::init::ParamInit;
use crate::parameter::quantization::{Matrices, NamedMatrix};
use crate::patches::Patches;
use crate::position::PositionEmbedding;
use crate::recurrent::attention::Source;
use crate::recurrent::decoder::RecurrentDecoder;
use crate::side::Side;

/// Initial standard deviation of positions, about that of the vectors of patches: captions say
/// where something is.
const STD: f64 = 0.5;

/// Encodes an image as a Vision Transformer does, and decodes a text that attends to its patches.
#[derive(Module, Debug)]
pub struct Captioner {
    /// Embeds the patches of an image.
    pub patches: Patches,
    /// Self-attention between patches.
    pub encoder: Encoder,
    /// Vectors of the tokens; the output projection too, when it is tied.
    pub tgt_embedding: Embedding,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Positions of the text; none with a recurrent decoder.
    pub tgt_position: PositionEmbedding,
    /// Decodes the text.
    pub decoder: TextDecoder,
    dropout: Dropout,
    #[module(skip)]
    shape: CaptionerShape,
}

/// The decoder of a captioner.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "a model has one")]
pub enum TextDecoder {
    /// Computes all positions at once in training.
    Transformer(Decoder),
    /// Computes one position after the other.
    Rnn(RecurrentDecoder),
}

/// The cache of a [`Captioner`]: its state between positions.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each member of an ensemble"
)]
pub enum CaptionCache {
    /// Keys and values of a Transformer decoder.
    Transformer(DecoderCache),
    /// States of a recurrent decoder.
    Rnn(RnnCache),
}

/// The encoder's output for a batch of images.
struct Memory {
    /// `[batch, patches, d_model]`.
    states: Tensor<3>,
    /// `[batch, 1, 1, patches]`; images have no padding.
    mask: Tensor<4, Bool>,
}

impl Captioner {
    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &CaptionerShape, init: ParamInit) -> Self {
        let CaptionerShape {
            stack,
            recurrent,
            patches,
        } = shape;
        let init = &mut init.with_precision(stack.precision);
        let d_model = stack.d_model;
        let vocab_size = stack.tgt_vocab_size;
        let has_output = stack.tie_embeddings == TieEmbeddings::None;
        // The order of the fields decides the random numbers of each parameter.
        Self {
            patches: Patches::new(*patches, d_model, STD, init),
            encoder: Encoder::new(stack, stack.num_encoder_layers, init),
            tgt_embedding: Embedding::new(vocab_size, d_model, init),
            output: has_output.then(|| Linear::without_bias(d_model, vocab_size, init)),
            tgt_position: match recurrent {
                None => stack.position_embedding(init),
                Some(_) => PositionEmbedding::None(d_model),
            },
            decoder: match recurrent {
                None => TextDecoder::Transformer(Decoder::new(stack, init)),
                Some(shape) => TextDecoder::Rnn(RecurrentDecoder::new(shape, init)),
            },
            dropout: Dropout::new(stack.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &CaptionerShape {
        &self.shape
    }

    /// Encodes images, and calls `watch` with the attention weights of each layer.
    fn encode(&self, src: inputs::Source, watch: Watch<'_>) -> Memory {
        let embedded = self.patches.forward(src.into_pixels());
        let embedded = self.dropout.forward(embedded);
        let [batch, len, _] = embedded.dims();
        // Images of one size need no padding.
        let mask = no_mask(batch, len, &embedded.device());
        Memory {
            states: self.encoder.forward(embedded, &mask, None, watch),
            mask,
        }
    }

    /// As [`Predict::predict`]; calls `watch` with the attention weights of each layer.
    fn predict_watched(&self, Pair { src, tgt_in }: Pair, mut watch: Watch<'_>) -> Prediction<'_> {
        let memory = self.encode(src, reborrow(&mut watch));
        let embedded = self.embed(tgt_in.clone(), 0);
        let hidden = match &self.decoder {
            TextDecoder::Transformer(decoder) => {
                let stack = &self.shape.stack;
                let rotation = stack.rotation(0, tgt_in.dims()[1], &tgt_in.device());
                let input = DecoderInput {
                    memory: &memory.states,
                    src_pad_mask: &memory.mask,
                    causal_mask: &causal_padding_mask(&tgt_in, stack.tgt_pad_id),
                    rotation: rotation.as_ref(),
                };
                decoder.forward(embedded, &input, watch)
            }
            TextDecoder::Rnn(decoder) => {
                let source = memory.source(decoder);
                let mut watch_heads = |weights: Tensor<3>| {
                    if let Some(watch) = reborrow(&mut watch) {
                        watch(AttentionKind::Cross, weights.unsqueeze_dim(1));
                    }
                };
                let summary = memory.mean();
                decoder.forward(embedded, &summary, source.as_ref(), Some(&mut watch_heads))
            }
        };
        self.projection().project(hidden.flatten(0, 1))
    }

    /// Embeds tokens at the positions `start ..`.
    ///
    /// # Shapes
    /// - `ids`: `[rows, len]`; output: `[rows, len, d_model]`
    fn embed(&self, ids: Tensor<2, Int>, start: usize) -> Tensor<3> {
        let embedded = self.tgt_embedding.forward(ids);
        self.dropout.forward(self.tgt_position.add(embedded, start))
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), &self.tgt_embedding)
    }
}

impl Memory {
    /// The summary that a recurrent decoder begins with (Xu et al., section 3.1.2),
    /// `[batch, d_model]`.
    fn mean(&self) -> Tensor<2> {
        self.states.clone().mean_dim(1).squeeze_dim(1)
    }

    /// Keys and values for the attention of a recurrent decoder, if it has any.
    fn source(&self, decoder: &RecurrentDecoder) -> Option<Source> {
        let attention = decoder.attention.as_ref()?;
        Some(attention.read(&self.states, &self.mask))
    }
}

impl Captioner {
    /// Lists the matrices that may have 8 bits.
    pub(crate) fn matrices(&mut self) -> Vec<NamedMatrix<'_>> {
        let mut matrices = Matrices::default();
        matrices.add_embedding("tgt_embedding", &mut self.tgt_embedding);
        matrices.add_linear("patches.projection", &mut self.patches.projection);
        if let Some(output) = &mut self.output {
            matrices.add_linear("output", output);
        }
        matrices.add_encoder(&mut self.encoder);
        // The matrices of recurrent layers stay in f32.
        if let TextDecoder::Transformer(decoder) = &mut self.decoder {
            matrices.add_decoder(decoder);
        }
        matrices.list
    }
}

impl Predict<Pair> for Captioner {
    fn predict(&self, pair: Pair) -> Prediction<'_> {
        self.predict_watched(pair, None)
    }
}

impl Generate for Captioner {
    type Cache = CaptionCache;

    fn start(&self, src: inputs::Source) -> CaptionCache {
        let memory = self.encode(src, None);
        match &self.decoder {
            TextDecoder::Transformer(decoder) => {
                CaptionCache::Transformer(decoder.start(&memory.states, &memory.mask))
            }
            TextDecoder::Rnn(decoder) => {
                let source = memory.source(decoder);
                CaptionCache::Rnn(RnnCache::new(decoder, source, &memory.mean()))
            }
        }
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut CaptionCache) -> Tensor<2> {
        let hidden = match (&self.decoder, cache) {
            (TextDecoder::Transformer(decoder), CaptionCache::Transformer(cache)) => {
                let rotation = self.shape.stack.rotation(cache.len, 1, &ids.device());
                decoder
                    .advance(self.embed(ids, cache.len), rotation.as_ref(), cache)
                    .flatten(0, 1)
            }
            (TextDecoder::Rnn(decoder), CaptionCache::Rnn(cache)) => {
                // A recurrent decoder has no positions, so it need not know how many came before.
                cache.advance(decoder, self.embed(ids, 0))
            }
            _ => panic!("a captioner needs a cache of its own"),
        };
        self.projection().project(hidden).logits()
    }

    fn select(cache: &mut CaptionCache, rows: &[usize], device: &Device) {
        match cache {
            CaptionCache::Transformer(cache) => cache.select(rows),
            CaptionCache::Rnn(cache) => cache.select(rows, device),
        }
    }
}

impl Inspect for Captioner {
    type Inputs = Pair;

    fn attention(&self, pair: Pair) -> AttentionMaps {
        let mut maps = AttentionMaps::default();
        let mut watch = |kind, weights| maps.push(kind, weights);
        self.predict_watched(pair, Some(&mut watch));
        maps
    }

    fn cross_attention(&self, pair: Pair) -> Vec<Tensor<3>> {
        let layers = self.attention(pair).cross.into_iter();
        layers
            .map(|weights| weights.mean_dim(1).squeeze_dim(1))
            .collect()
    }

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.tgt_embedding)
    }
}
