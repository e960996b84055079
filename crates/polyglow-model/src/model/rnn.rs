//! The recurrent encoder-decoder with attention on one screen: encode, forward (all positions), advance (one position).

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};

use super::{Architecture, AttentionMaps, Cache, Side};
use crate::cache::{Sentences, indices};
use crate::config::{ModelShape, RnnConfig, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::mask::padding_mask;
use crate::prediction::{Prediction, Projection};
use crate::recurrent::attention::Source;
use crate::recurrent::decoder::{Progress, RecurrentDecoder, Watch};
use crate::recurrent::encoder::RecurrentEncoder;

/// A bidirectional recurrent encoder and a recurrent decoder with attention (Bahdanau et al., 2015; Luong et al., 2015),
/// or without it (Sutskever et al., 2014).
#[derive(Module, Debug)]
pub struct Rnn {
    /// Vectors of the source tokens; of the target tokens too, and the output projection, when all are tied.
    pub src_embedding: Embedding,
    /// Vectors of the target tokens, unless all are tied; the output projection too, when the decoder's are tied.
    pub tgt_embedding: Option<Embedding>,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// Reads the source.
    pub encoder: RecurrentEncoder,
    /// Writes the target.
    pub decoder: RecurrentDecoder,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: RnnConfig,
}

/// Everything that [`Rnn::advance`] keeps between positions.
#[derive(Clone, Debug)]
pub struct RnnCache {
    /// The source as attention sees it, once for each sentence; none without attention.
    source: Option<Source>,
    progress: Progress,
    sentences: Sentences,
}

/// What the encoder made of a batch of source sentences.
struct Memory {
    source: Option<Source>,
    /// `[batch, d_model]`.
    summary: Tensor<2>,
}

impl Rnn {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to train it).
    pub fn new(config: &RnnConfig, seed: u64, device: &Device) -> Self {
        Self::build(config, ParamInit::new(seed, device))
    }

    /// The same with other initial values.
    pub(crate) fn build(config: &RnnConfig, init: ParamInit) -> Self {
        let init = &mut init.with_precision(config.precision);
        let RnnConfig { vocabulary, d_model, tie_embeddings: tied, .. } = *config;
        Self {
            src_embedding: Embedding::new(vocabulary.src_size, d_model, init),
            tgt_embedding: (tied != TieEmbeddings::All).then(|| Embedding::new(vocabulary.tgt_size, d_model, init)),
            output: (tied == TieEmbeddings::None).then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
            encoder: RecurrentEncoder::new(config, init),
            decoder: RecurrentDecoder::new(config, init),
            dropout: Dropout::new(config.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// The shape it was built with.
    pub fn config(&self) -> &RnnConfig {
        &self.config
    }

    fn encode(&self, src: Tensor<2, Int>) -> Memory {
        let pad_mask = padding_mask(&src, self.config.vocabulary.src_pad_id);
        let (states, summary) = self.read(src, &pad_mask);
        let attended = self.decoder.attention.as_ref().zip(states.last());
        let source = attended.map(|(attention, states)| attention.read(states, &pad_mask));
        Memory { source, summary }
    }

    fn read(&self, src: Tensor<2, Int>, pad_mask: &Tensor<4, Bool>) -> (Vec<Tensor<3>>, Tensor<2>) {
        self.encoder.forward(self.dropout.forward(self.src_embedding.forward(src)), pad_mask)
    }

    /// The state after each layer of the encoder, from the lowest.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; output: `[batch, src_len, d_model]` each
    pub fn states(&self, src: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let pad_mask = padding_mask(&src, self.config.vocabulary.src_pad_id);
        self.read(src, &pad_mask).0
    }

    /// Scores of the next token at every target position at once (teacher forcing); shows the attention weights,
    /// `[batch, tgt_len, src_len]`, to `watch`.
    ///
    /// # Shapes
    /// - `src`: `[batch, src_len]`; `tgt_in`: `[batch, tgt_len]`; output: `[batch * tgt_len, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>, watch: Watch<'_>) -> Tensor<2> {
        self.predict_watched(src, tgt_in, watch).logits()
    }

    /// What [`Self::forward`] scores tokens by.
    fn predict_watched(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>, watch: Watch<'_>) -> Prediction<'_> {
        let Memory { source, summary } = self.encode(src);
        let embedded = self.dropout.forward(self.tgt_embedding().forward(tgt_in));
        let output = self.decoder.forward(embedded, &summary, source.as_ref(), watch);
        self.projection().of(output.flatten(0, 1))
    }

    /// An empty cache to [`Self::advance`] from.
    ///
    /// # Shapes
    /// - `src`: `[rows, src_len]`
    pub fn start(&self, src: Tensor<2, Int>) -> RnnCache {
        let [rows, _] = src.dims();
        let Memory { source, summary } = self.encode(src);
        RnnCache { source, progress: self.decoder.start(&summary), sentences: Sentences::new(rows) }
    }

    /// Scores of the next token after one more token in every row; equal to the last position of [`Self::forward`].
    ///
    /// # Shapes
    /// - `ids`: `[rows, 1]`, the newest token; output: `[rows, tgt_vocab_size]`
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut RnnCache) -> Tensor<2> {
        let embedded: Tensor<2> = self.tgt_embedding().forward(ids).squeeze_dim(1);
        let hidden = self.decoder.advance(embedded, &mut cache.progress, cache.source.as_ref());
        self.projection().of(hidden).logits()
    }

    fn tgt_embedding(&self) -> &Embedding {
        self.tgt_embedding.as_ref().unwrap_or(&self.src_embedding)
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), self.tgt_embedding())
    }
}

impl Architecture for Rnn {
    fn shape(&self) -> ModelShape {
        ModelShape::Rnn(self.config.clone())
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
        self.predict_watched(src, tgt_in, None)
    }

    fn predict_aligned(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> (Prediction<'_>, Option<Tensor<3>>) {
        let mut found = None;
        let prediction = self.predict_watched(src, tgt_in, Some(&mut |weights| found = Some(weights)));
        (prediction, found)
    }

    fn attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> AttentionMaps {
        let cross = self.cross_attention(src, tgt_in).into_iter().map(|weights| weights.unsqueeze_dim(1));
        AttentionMaps { cross: cross.collect(), ..AttentionMaps::default() }
    }

    fn cross_attention(&self, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.predict_aligned(src, tgt_in).1.into_iter().collect()
    }

    fn start(&self, src: Tensor<2, Int>) -> Cache {
        Cache::Rnn(self.start(src))
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let Cache::Rnn(cache) = cache else { panic!("a model goes on from its own cache") };
        self.advance(ids, cache)
    }
}

impl RnnCache {
    /// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
    pub fn select(&mut self, rows: &[usize]) {
        if rows.iter().copied().eq(0..self.sentences.rows()) {
            return;
        }
        let device = self.progress.states[0].hidden().device();
        self.progress.select(&indices(rows, &device));
        if let Some(kept) = self.sentences.select(rows) {
            self.source = self.source.as_ref().map(|source| source.select(&indices(&kept, &device)));
        }
    }
}
