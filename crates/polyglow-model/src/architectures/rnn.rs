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
use crate::inputs::Pair;
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
    /// Reads the source.
    pub encoder: RecurrentEncoder,
    /// Writes the target.
    pub decoder: RecurrentDecoder,
    dropout: Dropout,
    #[module(skip)]
    shape: RnnShape,
}

/// What a [`Rnn`] keeps between positions.
#[derive(Clone, Debug)]
pub struct RnnCache {
    /// The source as attention sees it, one entry per sentence; `None` without attention.
    source: Option<Source>,
    progress: Progress,
    sentences: Sentences,
}

impl RnnCache {
    /// Before the first position of each sentence, whose last states of the encoder are `summary`,
    /// `[batch, d_model]`.
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

    /// One more position.
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

    /// As [`Generate::select`].
    pub(super) fn select(&mut self, rows: &[usize], device: &Device) {
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

    /// The same with other initial values.
    pub(crate) fn build(shape: &RnnShape, init: ParamInit) -> Self {
        let init = &mut init.with_precision(shape.precision);
        let RnnShape {
            vocabulary,
            d_model,
            tie_embeddings: tied,
            ..
        } = *shape;
        Self {
            src_embedding: Embedding::new(vocabulary.src_size, d_model, init),
            tgt_embedding: (tied != TieEmbeddings::All)
                .then(|| Embedding::new(vocabulary.tgt_size, d_model, init)),
            output: (tied == TieEmbeddings::None)
                .then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
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

    fn encode(&self, src: Tensor<2, Int>) -> Memory {
        let pad_mask = padding_mask(&src, self.shape.vocabulary.src_pad_id);
        let (states, summary) = self.read(src, &pad_mask);
        let attended = self.decoder.attention.as_ref().zip(states.last());
        let source = attended.map(|(attention, states)| attention.read(states, &pad_mask));
        Memory { source, summary }
    }

    fn read(&self, src: Tensor<2, Int>, pad_mask: &Tensor<4, Bool>) -> (Vec<Tensor<3>>, Tensor<2>) {
        self.encoder.forward(
            self.dropout.forward(self.src_embedding.forward(src)),
            pad_mask,
        )
    }

    /// Shows the attention weights, `[batch, tgt_len, src_len]`, to `watch`.
    fn predict_watched(&self, Pair { src, tgt_in }: Pair, watch: Watch<'_>) -> Prediction<'_> {
        let Memory { source, summary } = self.encode(src);
        let embedded = self.dropout.forward(self.tgt_embedding().forward(tgt_in));
        let output = self
            .decoder
            .forward(embedded, &summary, source.as_ref(), watch);
        self.projection().of(output.flatten(0, 1))
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
        let mut found = None;
        let prediction = self.predict_watched(pair, Some(&mut |weights| found = Some(weights)));
        (prediction, found)
    }
}

impl Generate for Rnn {
    type Cache = RnnCache;

    fn start(&self, src: Tensor<2, Int>) -> RnnCache {
        let Memory { source, summary } = self.encode(src);
        RnnCache::new(&self.decoder, source, &summary)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut RnnCache) -> Tensor<2> {
        let hidden = cache.advance(&self.decoder, self.tgt_embedding().forward(ids));
        self.projection().of(hidden).logits()
    }

    fn select(cache: &mut RnnCache, rows: &[usize], device: &Device) {
        cache.select(rows, device);
    }
}

impl Inspect for Rnn {
    type Inputs = Pair;

    fn attention(&self, pair: Pair) -> AttentionMaps {
        let cross = self
            .cross_attention(pair)
            .into_iter()
            .map(|weights| weights.unsqueeze_dim(1));
        AttentionMaps {
            cross: cross.collect(),
            ..AttentionMaps::default()
        }
    }

    fn cross_attention(&self, pair: Pair) -> Vec<Tensor<3>> {
        self.predict_aligned(pair).1.into_iter().collect()
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let pad_mask = padding_mask(&ids, self.shape.vocabulary.src_pad_id);
        self.read(ids, &pad_mask).0
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        Some(match side {
            Side::Src => &self.src_embedding,
            Side::Tgt => self.tgt_embedding(),
        })
    }
}
