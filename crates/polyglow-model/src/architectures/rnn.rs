//! The recurrent encoder-decoder with attention: encode, predict (all positions), advance (one
//! position).

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::AttentionMaps;
use crate::cache::{Sentences, indices};
use crate::config::{RnnShape, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::inputs::{self, Pair};
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::mask::padding_mask;
use crate::parameter::init::ParamInit;
use crate::recurrent::attention::Source;
use crate::recurrent::decoder::{Progress, RecurrentDecoder, Watch};
use crate::recurrent::encoder::RecurrentEncoder;
use crate::side::Side;

/// A bidirectional recurrent encoder and a recurrent decoder with attention (Bahdanau et al., 2015;
/// Luong et al., 2015), or without it (Sutskever et al., 2014).
#[derive(Module, Debug)]
pub struct Rnn {
    /// Vectors of the source tokens; of the target tokens too, and the output projection, when all
    /// are tied.
    pub src_embedding: Embedding,
    /// Vectors of the target tokens, unless all are tied; the output projection too, when the
    /// decoder's are tied.
    pub tgt_embedding: Option<Embedding>,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Encodes the source.
    pub encoder: RecurrentEncoder,
    /// Decodes the target.
    pub decoder: RecurrentDecoder,
    dropout: Dropout,
    #[module(skip)]
    shape: RnnShape,
}

/// The cache of an [`Rnn`]: its state between positions.
#[derive(Clone, Debug)]
pub struct RnnCache {
    /// Keys and values of the source, one entry per sentence; `None` without attention.
    source: Option<Source>,
    progress: Progress,
    sentences: Sentences,
}

impl RnnCache {
    /// The cache before the first position, with one row per sentence. `summary` is the last state
    /// of the encoder, `[batch, d_model]`.
    pub(super) fn new(
        decoder: &RecurrentDecoder,
        source: Option<Source>,
        summary: &Tensor<2>,
    ) -> Self {
        let sentences = Sentences::new(summary.dims()[0]);
        Self {
            source,
            progress: decoder.start(summary),
            sentences,
        }
    }

    /// Runs the decoder on one more position.
    ///
    /// # Shapes
    /// - `embedded`: `[rows, 1, d_model]`; output: `[rows, d_model]`
    pub(super) fn advance(&mut self, decoder: &RecurrentDecoder, embedded: Tensor<3>) -> Tensor<2> {
        decoder.advance(
            embedded.squeeze_dim(1),
            &mut self.progress,
            self.source.as_ref(),
        )
    }

    /// Keeps the given rows, as [`Generate::select`] does.
    pub(super) fn select(&mut self, rows: &[usize], device: &Device) {
        // Often every row stays in place, and nothing need be copied.
        if rows.iter().copied().eq(0..self.sentences.rows()) {
            return;
        }
        self.progress.select(&indices(rows, device));
        if let Some(kept) = self.sentences.select(rows) {
            self.source = self
                .source
                .as_ref()
                .map(|source| source.select(&indices(&kept, device)));
        }
    }
}

/// The encoder's output for a batch of source sentences.
struct Memory {
    source: Option<Source>,
    /// `[batch, d_model]`.
    summary: Tensor<2>,
}

impl Rnn {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to
    /// train it).
    pub fn new(shape: &RnnShape, seed: u64, device: &Device) -> Self {
        Self::build(shape, ParamInit::new(seed, device))
    }

    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &RnnShape, init: ParamInit) -> Self {
        let init = &mut init.with_precision(shape.precision);
        let RnnShape {
            vocabulary,
            d_model,
            tie_embeddings,
            ..
        } = *shape;
        let has_tgt_embedding = tie_embeddings != TieEmbeddings::All;
        let has_output = tie_embeddings == TieEmbeddings::None;
        // The order of the fields decides the random numbers of each parameter.
        Self {
            src_embedding: Embedding::new(vocabulary.src_size, d_model, init),
            tgt_embedding: has_tgt_embedding
                .then(|| Embedding::new(vocabulary.tgt_size, d_model, init)),
            output: has_output.then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
            encoder: RecurrentEncoder::new(shape, init),
            decoder: RecurrentDecoder::new(shape, init),
            dropout: Dropout::new(shape.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &RnnShape {
        &self.shape
    }

    /// Encodes the source, and computes the keys and values of attention.
    fn encode(&self, src: Tensor<2, Int>) -> Memory {
        let pad_mask = padding_mask(&src, self.shape.vocabulary.src_pad_id);
        let (states, summary) = self.encode_layers(src, &pad_mask);
        // Attention is to the highest layer of the encoder.
        let attended = self.decoder.attention.as_ref().zip(states.last());
        let source = attended.map(|(attention, states)| attention.read(states, &pad_mask));
        Memory { source, summary }
    }

    /// Returns the states after each layer of the encoder, and the summary of the source.
    fn encode_layers(
        &self,
        src: Tensor<2, Int>,
        pad_mask: &Tensor<4, Bool>,
    ) -> (Vec<Tensor<3>>, Tensor<2>) {
        let embedded = self.dropout.forward(self.src_embedding.forward(src));
        self.encoder.forward(embedded, pad_mask)
    }

    /// As [`Predict::predict`]; calls `watch` with the attention weights,
    /// `[batch, tgt_len, src_len]`.
    fn predict_watched(&self, Pair { src, tgt_in }: Pair, watch: Watch<'_>) -> Prediction<'_> {
        let Memory { source, summary } = self.encode(src.into_ids());
        let embedded = self.dropout.forward(self.tgt_embedding().forward(tgt_in));
        let output = self
            .decoder
            .forward(embedded, &summary, source.as_ref(), watch);
        self.projection().project(output.flatten(0, 1))
    }

    fn tgt_embedding(&self) -> &Embedding {
        self.tgt_embedding.as_ref().unwrap_or(&self.src_embedding)
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), self.tgt_embedding())
    }
}

impl Predict<Pair> for Rnn {
    fn predict(&self, pair: Pair) -> Prediction<'_> {
        self.predict_watched(pair, None)
    }

    fn predict_aligned(&self, pair: Pair) -> (Prediction<'_>, Option<Tensor<3>>) {
        let mut attention = None;
        let mut watch = |weights| attention = Some(weights);
        let prediction = self.predict_watched(pair, Some(&mut watch));
        (prediction, attention)
    }
}

impl Generate for Rnn {
    type Cache = RnnCache;

    fn start(&self, src: inputs::Source) -> RnnCache {
        let Memory { source, summary } = self.encode(src.into_ids());
        RnnCache::new(&self.decoder, source, &summary)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut RnnCache) -> Tensor<2> {
        // Search runs without dropout, so none is applied here.
        let hidden = cache.advance(&self.decoder, self.tgt_embedding().forward(ids));
        self.projection().project(hidden).logits()
    }

    fn select(cache: &mut RnnCache, rows: &[usize], device: &Device) {
        cache.select(rows, device);
    }
}

impl Inspect for Rnn {
    type Inputs = Pair;

    fn attention(&self, pair: Pair) -> AttentionMaps {
        let layers = self.cross_attention(pair).into_iter();
        AttentionMaps {
            // Attention of a recurrent decoder has one head.
            cross: layers.map(|weights| weights.unsqueeze_dim(1)).collect(),
            ..AttentionMaps::default()
        }
    }

    fn cross_attention(&self, pair: Pair) -> Vec<Tensor<3>> {
        // One attention serves all layers of the decoder.
        self.predict_aligned(pair).1.into_iter().collect()
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let pad_mask = padding_mask(&ids, self.shape.vocabulary.src_pad_id);
        self.encode_layers(ids, &pad_mask).0
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        Some(match side {
            Side::Src => &self.src_embedding,
            Side::Tgt => self.tgt_embedding(),
        })
    }
}
