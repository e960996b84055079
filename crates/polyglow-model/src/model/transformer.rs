//! The whole model on one screen: encode, forward (all positions), advance (one position).

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};

use super::{Architecture, Cache, Side};
use crate::attention::{AttentionKind, Watch};
use crate::cache::DecoderCache;
use crate::config::{ModelShape, TieEmbeddings, TransformerConfig};
use crate::decoder::{Decoder, DecoderInput};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::mask::{causal_padding_mask, padding_mask};
use crate::position::{PositionEmbedding, Rotation};
use crate::prediction::{Prediction, Projection};

/// The encoder-decoder Transformer (Vaswani et al., 2017, figure 1).
#[derive(Module, Debug)]
pub struct Transformer {
    /// Vectors of the source tokens; of the target tokens too, and the output projection, when all are tied.
    pub src_embedding: Embedding,
    /// Vectors of the target tokens, unless all are tied; the output projection too, when the decoder's are tied.
    pub tgt_embedding: Option<Embedding>,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Positions of the source.
    pub src_position: PositionEmbedding,
    /// Positions of the target.
    pub tgt_position: PositionEmbedding,
    /// Reads the source.
    pub encoder: Encoder,
    /// Writes the target.
    pub decoder: Decoder,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: TransformerConfig,
}

/// What the encoder made of a batch of source sentences.
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[batch, src_len, d_model]`.
    pub states: Tensor<3>,
    /// `[batch, 1, 1, src_len]`, `true` on padding.
    pub src_pad_mask: Tensor<4, Bool>,
}

/// Attention weights, one entry a layer from the lowest upwards; each row of them sums to 1.
#[derive(Clone, Debug, Default)]
pub struct AttentionMaps {
    /// `[batch, num_heads, src_len, src_len]` each.
    pub encoder: Vec<Tensor<4>>,
    /// `[batch, num_heads, tgt_len, tgt_len]` each.
    pub decoder: Vec<Tensor<4>>,
    /// `[batch, num_heads, tgt_len, src_len]` each.
    pub cross: Vec<Tensor<4>>,
}

impl Transformer {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to train it).
    pub fn new(config: &TransformerConfig, seed: u64, device: &Device) -> Self {
        Self::build(config, ParamInit::new(seed, device))
    }

    /// The same with other initial values.
    pub(crate) fn build(config: &TransformerConfig, init: ParamInit) -> Self {
        let init = &mut init.with_precision(config.precision);
        let tied = config.tie_embeddings;
        Self {
            src_embedding: Embedding::new(config.src_vocab_size, config.d_model, init),
            tgt_embedding: (tied != TieEmbeddings::All)
                .then(|| Embedding::new(config.tgt_vocab_size, config.d_model, init)),
            output: (tied == TieEmbeddings::None)
                .then(|| Linear::without_bias(config.d_model, config.tgt_vocab_size, init)),
            src_position: PositionEmbedding::new(config, init),
            tgt_position: PositionEmbedding::new(config, init),
            encoder: Encoder::new(config, config.num_encoder_layers, init),
            decoder: Decoder::new(config, init),
            dropout: Dropout::new(config.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// The shape it was built with.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// Reads the source.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`, ids with padding behind
    pub fn encode(&self, src: Tensor<2, Int>) -> Memory {
        self.encode_watched(src, None)
    }

    fn encode_watched(&self, src: Tensor<2, Int>, watch: Watch<'_>) -> Memory {
        let src_pad_mask = padding_mask(&src, self.config.src_pad_id);
        let rotation = Rotation::new(&self.config, 0, src.dims()[1], &src.device());
        let states = self.encoder.forward(self.embed(src), &src_pad_mask, rotation.as_ref(), watch);
        Memory { states, src_pad_mask }
    }

    /// The state after each layer of the encoder, from the lowest.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; output: `[batch, src_len, d_model]` each
    pub fn states(&self, src: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mask = padding_mask(&src, self.config.src_pad_id);
        let rotation = Rotation::new(&self.config, 0, src.dims()[1], &src.device());
        self.encoder.states(self.embed(src), &mask, rotation.as_ref())
    }

    /// # Shapes
    /// - `src`: `[batch, src_len]`; output: `[batch, src_len, d_model]`
    fn embed(&self, src: Tensor<2, Int>) -> Tensor<3> {
        self.dropout.forward(self.src_position.add(self.src_embedding.forward(src), 0))
    }

    /// Scores of the next token at every target position at once (teacher forcing).
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.decode(&self.encode(src), tgt_in)
    }

    /// [`Self::forward`] from what [`Self::encode`] made of the source.
    ///
    /// # Shapes
    /// - `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn decode(&self, memory: &Memory, tgt_in: Tensor<2, Int>) -> Tensor<2> {
        self.decode_watched(memory, tgt_in, None).logits()
    }

    fn decode_watched(&self, memory: &Memory, tgt_in: Tensor<2, Int>, watch: Watch<'_>) -> Prediction<'_> {
        let causal_mask = causal_padding_mask(&tgt_in, self.config.tgt_pad_id);
        let rotation = Rotation::new(&self.config, 0, tgt_in.dims()[1], &tgt_in.device());
        let embedded = self.tgt_position.add(self.tgt_embedding().forward(tgt_in), 0);
        let input = DecoderInput {
            memory: &memory.states,
            src_pad_mask: &memory.src_pad_mask,
            causal_mask: &causal_mask,
            rotation: rotation.as_ref(),
        };
        self.projected(self.decoder.forward(self.dropout.forward(embedded), &input, watch))
    }

    /// The weights of every attention in [`Self::forward`]. The query at a target position is the one that predicts the
    /// token after it.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`
    pub fn attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> AttentionMaps {
        let mut maps = AttentionMaps::default();
        let mut watch = |kind, weights| match kind {
            AttentionKind::Encoder => maps.encoder.push(weights),
            AttentionKind::Decoder => maps.decoder.push(weights),
            AttentionKind::Cross => maps.cross.push(weights),
        };
        let memory = self.encode_watched(src, Some(&mut watch));
        self.decode_watched(&memory, tgt_in, Some(&mut watch));
        maps
    }

    /// An empty cache to [`Self::advance`] from.
    pub fn start(&self, memory: &Memory) -> DecoderCache {
        self.decoder.start(&memory.states, &memory.src_pad_mask)
    }

    /// Scores of the next token after one more token in every row; equal to the last position of [`Self::forward`].
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut DecoderCache) -> Tensor<2> {
        let rotation = Rotation::new(&self.config, cache.len, 1, &ids.device());
        let embedded = self.tgt_position.add(self.tgt_embedding().forward(ids), cache.len);
        self.projected(self.decoder.advance(embedded, rotation.as_ref(), cache)).logits()
    }

    fn tgt_embedding(&self) -> &Embedding {
        self.tgt_embedding.as_ref().unwrap_or(&self.src_embedding)
    }

    /// # Shapes
    /// - `hidden`: `[batch, len, d_model]`
    fn projected(&self, hidden: Tensor<3>) -> Prediction<'_> {
        Projection::new(self.output.as_ref(), self.tgt_embedding()).of(hidden.flatten(0, 1))
    }
}

impl Architecture for Transformer {
    fn shape(&self) -> ModelShape {
        ModelShape::Transformer(self.config.clone())
    }

    fn on_host(&self) -> bool {
        self.on_host
    }

    fn embedding(&self, side: Side) -> &Embedding {
        match side {
            Side::Src => &self.src_embedding,
            Side::Tgt => self.tgt_embedding(),
        }
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.states(ids)
    }

    fn predict(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Prediction<'_> {
        self.decode_watched(&self.encode(src), tgt_in, None)
    }

    fn predict_aligned(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> (Prediction<'_>, Option<Tensor<3>>) {
        let mut last = None;
        let mut watch = |kind, weights: Tensor<4>| {
            if kind == AttentionKind::Cross {
                last = Some(weights);
            }
        };
        let prediction = self.decode_watched(&self.encode(src), tgt_in, Some(&mut watch));
        let weights: Tensor<4> = last.expect("a decoder has at least one layer");
        (prediction, Some(weights.mean_dim(1).squeeze_dim(1)))
    }

    fn attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> AttentionMaps {
        self.attention(src, tgt_in)
    }

    fn cross_attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mut layers = Vec::new();
        let mut watch = |kind, weights: Tensor<4>| {
            if kind == AttentionKind::Cross {
                layers.push(weights.mean_dim(1).squeeze_dim(1));
            }
        };
        self.decode_watched(&self.encode(src), tgt_in, Some(&mut watch));
        layers
    }

    fn start(&self, src: Tensor<2, Int>) -> Cache {
        Cache::Transformer(self.start(&self.encode(src)))
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let Cache::Transformer(cache) = cache else { panic!("a model goes on from its own cache") };
        self.advance(ids, cache)
    }
}
