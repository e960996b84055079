//! The whole Transformer on one screen: encode, predict (all positions), advance (one position).

use burn::module::{Module, Param};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::{AttentionKind, AttentionMaps, Watch};
use crate::cache::DecoderCache;
use crate::config::{TieEmbeddings, TransformerShape};
use crate::decoder::{Decoder, DecoderInput};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::inputs::{Pair, Source};
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::mask::{causal_padding_mask, padding_mask};
use crate::parameter::init::ParamInit;
use crate::parameter::quantization::{Matrices, NamedMatrix};
use crate::position::PositionEmbedding;
use crate::side::Side;

/// The encoder-decoder Transformer (Vaswani et al., 2017, figure 1).
#[derive(Module, Debug)]
pub struct Transformer {
    /// Vectors of the source tokens; of the target tokens too, and the output projection, when all
    /// are tied.
    pub src_embedding: Embedding,
    /// Vectors of the target tokens, unless all are tied; the output projection too, when the
    /// decoder's are tied.
    pub tgt_embedding: Option<Embedding>,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// `[tgt_vocab_size]`, added to the scores of the output projection, if that has a bias.
    pub output_bias: Option<Param<Tensor<1>>>,
    /// Positions of the source.
    pub src_position: PositionEmbedding,
    /// Positions of the target.
    pub tgt_position: PositionEmbedding,
    /// Encodes the source.
    pub encoder: Encoder,
    /// Decodes the target.
    pub decoder: Decoder,
    dropout: Dropout,
    #[module(skip)]
    shape: TransformerShape,
}

/// The encoder's output for a batch of source sentences.
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[batch, src_len, d_model]`.
    pub states: Tensor<3>,
    /// `[batch, 1, 1, src_len]`, `true` on padding.
    pub src_pad_mask: Tensor<4, Bool>,
}

impl Transformer {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to
    /// train it).
    pub fn new(shape: &TransformerShape, seed: u64, device: &Device) -> Self {
        Self::build(shape, ParamInit::new(seed, device))
    }

    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &TransformerShape, init: ParamInit) -> Self {
        let init = &mut init.with_precision(shape.precision);
        let d_model = shape.d_model;
        let has_tgt_embedding = shape.tie_embeddings != TieEmbeddings::All;
        let has_output = shape.tie_embeddings == TieEmbeddings::None;
        // The order of the fields decides the random numbers of each parameter.
        Self {
            src_embedding: Embedding::new(shape.src_vocab_size, d_model, init),
            tgt_embedding: has_tgt_embedding
                .then(|| Embedding::new(shape.tgt_vocab_size, d_model, init)),
            output: has_output.then(|| Linear::without_bias(d_model, shape.tgt_vocab_size, init)),
            output_bias: shape
                .output_bias
                .then(|| init.constant(shape.tgt_vocab_size, 0.0)),
            src_position: shape.position_embedding(init),
            tgt_position: shape.position_embedding(init),
            encoder: Encoder::new(shape, shape.num_encoder_layers, init),
            decoder: Decoder::new(shape, init),
            dropout: Dropout::new(shape.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &TransformerShape {
        &self.shape
    }

    /// Encodes the source.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`, ids with padding behind
    pub fn encode(&self, src: Tensor<2, Int>) -> Memory {
        self.encode_watched(src, None)
    }

    /// As [`Self::encode`]; calls `watch` with the attention weights of each layer.
    fn encode_watched(&self, src: Tensor<2, Int>, watch: Watch<'_>) -> Memory {
        // Mask and rotation are computed once per batch, and shared by all layers.
        let src_pad_mask = padding_mask(&src, self.shape.src_pad_id);
        let rotation = self.shape.rotation(0, src.dims()[1], &src.device());
        let states = self
            .encoder
            .forward(self.embed(src), &src_pad_mask, rotation.as_ref(), watch);
        Memory {
            states,
            src_pad_mask,
        }
    }

    /// Embeds the source: vectors of tokens plus positions, with dropout.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; output: `[batch, src_len, d_model]`
    fn embed(&self, src: Tensor<2, Int>) -> Tensor<3> {
        let embedded = self.src_embedding.forward(src);
        self.dropout.forward(self.src_position.add(embedded, 0))
    }

    /// Scores the next token at every target position at once (teacher forcing).
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output:
    ///   `[batch * tgt_len, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.decode(&self.encode(src), tgt_in)
    }

    /// [`Self::forward`] from the output of [`Self::encode`].
    ///
    /// # Shapes
    /// - `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn decode(&self, memory: &Memory, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.decode_watched(memory, tgt_in, None).logits()
    }

    /// As [`Self::decode`]; calls `watch` with the attention weights of each layer.
    fn decode_watched(
        &self,
        memory: &Memory,
        tgt_in: Tensor<2, Int>,
        watch: Watch<'_>,
    ) -> Prediction<'_> {
        let causal_mask = causal_padding_mask(&tgt_in, self.shape.tgt_pad_id);
        let rotation = self.shape.rotation(0, tgt_in.dims()[1], &tgt_in.device());
        let embedded = self.tgt_embedding().forward(tgt_in);
        let embedded = self.tgt_position.add(embedded, 0);
        let input = DecoderInput {
            memory: &memory.states,
            src_pad_mask: &memory.src_pad_mask,
            causal_mask: &causal_mask,
            rotation: rotation.as_ref(),
        };
        let target = self.dropout.forward(embedded);
        self.project(self.decoder.forward(target, &input, watch))
    }

    fn tgt_embedding(&self) -> &Embedding {
        self.tgt_embedding.as_ref().unwrap_or(&self.src_embedding)
    }

    /// Projects hidden states to scores of tokens.
    ///
    /// # Shapes
    /// - `hidden`: `[batch, len, d_model]`
    fn project(&self, hidden: Tensor<3>) -> Prediction<'_> {
        let projection = Projection::new(self.output.as_ref(), self.tgt_embedding());
        let prediction = projection.project(hidden.flatten(0, 1));
        match &self.output_bias {
            None => prediction,
            // The kernel of the loss has no bias, so these scores are computed here.
            Some(bias) => Prediction::Scores(prediction.logits() + bias.val().unsqueeze()),
        }
    }
}

impl Transformer {
    /// Lists the matrices that may have 8 bits.
    pub(crate) fn matrices(&mut self) -> Vec<NamedMatrix<'_>> {
        let mut matrices = Matrices::default();
        matrices.add_embedding("src_embedding", &mut self.src_embedding);
        if let Some(embedding) = &mut self.tgt_embedding {
            matrices.add_embedding("tgt_embedding", embedding);
        }
        if let Some(output) = &mut self.output {
            matrices.add_linear("output", output);
        }
        matrices.add_encoder(&mut self.encoder);
        matrices.add_decoder(&mut self.decoder);
        matrices.list
    }
}

impl Predict<Pair> for Transformer {
    fn predict(&self, Pair { src, tgt_in }: Pair) -> Prediction<'_> {
        self.decode_watched(&self.encode(src.into_ids()), tgt_in, None)
    }

    /// Aligns by the cross-attention of the highest layer, averaged over heads.
    fn predict_aligned(&self, Pair { src, tgt_in }: Pair) -> (Prediction<'_>, Option<Tensor<3>>) {
        // Layers call `watch` from the lowest upwards, so the highest one is left.
        let mut highest = None;
        let mut watch = |kind, weights: Tensor<4>| {
            if kind == AttentionKind::Cross {
                highest = Some(weights);
            }
        };
        let prediction =
            self.decode_watched(&self.encode(src.into_ids()), tgt_in, Some(&mut watch));
        let attention = highest.map(|weights: Tensor<4>| weights.mean_dim(1).squeeze_dim(1));
        (prediction, attention)
    }
}

impl Generate for Transformer {
    type Cache = DecoderCache;

    fn start(&self, src: Source) -> DecoderCache {
        let Memory {
            states,
            src_pad_mask,
        } = self.encode(src.into_ids());
        self.decoder.start(&states, &src_pad_mask)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut DecoderCache) -> Tensor<2> {
        let rotation = self.shape.rotation(cache.len, 1, &ids.device());
        let embedded = self.tgt_embedding().forward(ids);
        // Search runs without dropout, so none is applied here.
        let embedded = self.tgt_position.add(embedded, cache.len);
        let hidden = self.decoder.advance(embedded, rotation.as_ref(), cache);
        self.project(hidden).logits()
    }

    fn select(cache: &mut DecoderCache, rows: &[usize], _: &Device) {
        cache.select(rows);
    }
}

impl Inspect for Transformer {
    type Inputs = Pair;

    fn attention(&self, Pair { src, tgt_in }: Pair) -> AttentionMaps {
        let mut maps = AttentionMaps::default();
        let mut watch = |kind, weights| maps.push(kind, weights);
        let memory = self.encode_watched(src.into_ids(), Some(&mut watch));
        self.decode_watched(&memory, tgt_in, Some(&mut watch));
        maps
    }

    fn cross_attention(&self, Pair { src, tgt_in }: Pair) -> Vec<Tensor<3>> {
        let mut layers = Vec::new();
        let mut watch = |kind, weights: Tensor<4>| {
            if kind == AttentionKind::Cross {
                layers.push(weights.mean_dim(1).squeeze_dim(1));
            }
        };
        self.decode_watched(&self.encode(src.into_ids()), tgt_in, Some(&mut watch));
        layers
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mask = padding_mask(&ids, self.shape.src_pad_id);
        let rotation = self.shape.rotation(0, ids.dims()[1], &ids.device());
        self.encoder
            .states(self.embed(ids), &mask, rotation.as_ref())
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        Some(match side {
            Side::Src => &self.src_embedding,
            Side::Tgt => self.tgt_embedding(),
        })
    }
}
