//! A model of any built-in architecture: the choice that a config file makes, on top of the traits
//! of [`crate::architecture`].

mod dispatch;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::{Generate, Inspect};
use crate::architectures::{
    CaptionCache, Captioner, EncoderOnly, LanguageModel, RecurrentLanguageModel, Rnn, RnnCache,
    SkipGramModel, States, TextCache, Transformer, Vit,
};
use crate::cache::DecoderCache;
use crate::config::{ModelShape, Task, Vocabulary};
use crate::embedding::Embedding;
use crate::host::computes_on_host;
use crate::parameter::init::ParamInit;
use crate::side::Side;
use crate::weight::Weight;

/// A model of any built-in architecture.
///
/// It implements [`Predict`](crate::Predict) for every kind of inputs, [`Inspect`] for
/// [`Inputs`](crate::Inputs), and [`Generate`]; what its architecture does not read is a panic.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each member of an ensemble"
)]
pub enum Model {
    /// The encoder-decoder Transformer; reads [`Pair`](crate::Pair).
    Transformer(Transformer),
    /// The recurrent encoder-decoder; reads [`Pair`](crate::Pair).
    Rnn(Rnn),
    /// The decoder-only Transformer; reads [`Text`](crate::Text).
    Lm(LanguageModel),
    /// The recurrent language model; reads [`Text`](crate::Text).
    RnnLm(RecurrentLanguageModel),
    /// Word vectors; reads [`Words`](crate::Words).
    SkipGram(SkipGramModel),
    /// The encoder of text with a head; reads [`Text`](crate::Text).
    Encoder(EncoderOnly),
    /// The Vision Transformer; reads [`Image`](crate::Image).
    Vit(Vit),
    /// The captioner; reads [`Pair`](crate::Pair), whose source is an image.
    Captioner(Captioner),
}

/// What a [`Model`] keeps between positions.
#[derive(Clone, Debug)]
pub enum Cache {
    /// Keys and values.
    Transformer(DecoderCache),
    /// States.
    Rnn(RnnCache),
    /// Keys and values of a text.
    Lm(TextCache),
    /// States of a text.
    RnnLm(States),
    /// Keys and values of an image, and what was written about it.
    Captioner(CaptionCache),
}

impl ModelShape {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to
    /// train it).
    pub fn init(&self, seed: u64, device: &Device) -> Model {
        Model::build(self, ParamInit::new(seed, device))
    }

    /// A model whose parameters are zeros, to be replaced by those of a file.
    pub fn blank(&self, device: &Device) -> Model {
        Model::build(self, ParamInit::zeros(device))
    }
}

impl Model {
    /// A model of this shape with initial values of one kind.
    pub(crate) fn build(shape: &ModelShape, init: ParamInit) -> Self {
        match shape {
            ModelShape::Transformer(shape) => Self::Transformer(Transformer::build(shape, init)),
            ModelShape::Rnn(shape) => Self::Rnn(Rnn::build(shape, init)),
            ModelShape::Lm(shape) => Self::Lm(LanguageModel::build(shape, init)),
            ModelShape::RnnLm(shape) => Self::RnnLm(RecurrentLanguageModel::build(shape, init)),
            ModelShape::SkipGram(shape) => Self::SkipGram(SkipGramModel::build(shape, init)),
            ModelShape::Encoder(shape) => Self::Encoder(EncoderOnly::build(shape, init)),
            ModelShape::Vit(shape) => Self::Vit(Vit::build(shape, init)),
            ModelShape::Captioner(shape) => Self::Captioner(Captioner::build(shape, init)),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> ModelShape {
        match self {
            Self::Transformer(model) => ModelShape::Transformer(model.shape().clone()),
            Self::Rnn(model) => ModelShape::Rnn(model.shape().clone()),
            Self::Lm(model) => ModelShape::Lm(model.shape().clone()),
            Self::RnnLm(model) => ModelShape::RnnLm(model.shape().clone()),
            Self::SkipGram(model) => ModelShape::SkipGram(*model.shape()),
            Self::Encoder(model) => ModelShape::Encoder(model.shape().clone()),
            Self::Vit(model) => ModelShape::Vit(model.shape().clone()),
            Self::Captioner(model) => ModelShape::Captioner(model.shape().clone()),
        }
    }

    /// What the data decided about it.
    pub fn vocabulary(&self) -> Vocabulary {
        self.shape().vocabulary()
    }

    /// What it was made for.
    pub fn task(&self) -> Task {
        self.shape().task()
    }

    /// Whether it computes in host memory; see [`computes_on_host`].
    pub fn on_host(&self) -> bool {
        self.devices().first().is_some_and(computes_on_host)
    }

    /// [`Generate::start`].
    ///
    /// # Panics
    /// If the architecture writes no text.
    pub fn start(&self, src: Tensor<2, Int>) -> Cache {
        Generate::start(self, src)
    }

    /// [`Generate::advance`].
    ///
    /// # Panics
    /// If the cache belongs to another architecture.
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        Generate::advance(self, ids, cache)
    }

    /// The side that it reads before it predicts anything, or as it predicts if there is only one.
    pub fn reading_side(&self) -> Side {
        self.task().reading_side()
    }

    /// The vectors of a side's tokens; the same for both sides if the model has one.
    ///
    /// # Panics
    /// If it reads images, which have no tokens.
    pub fn embedding(&self, side: Side) -> &Embedding {
        Inspect::embedding(self, side).expect("images have no tokens")
    }

    /// The vector of every token of a side.
    ///
    /// # Shapes
    /// - output: `[vocab_size, d_model]`, on `device`
    ///
    /// # Panics
    /// As [`Self::embedding`].
    pub fn vectors(&self, side: Side, device: &Device) -> Tensor<2> {
        let embedding = self.embedding(side);
        if let Weight::Float(weight) = &embedding.weight {
            return weight.val();
        }
        let Vocabulary {
            src_size, tgt_size, ..
        } = self.vocabulary();
        let vocab_size = if side == Side::Src {
            src_size
        } else {
            tgt_size
        };
        let ids =
            Tensor::<1, Int>::from_data(&(0..vocab_size as i32).collect::<Vec<_>>()[..], device);
        embedding.rows(ids.unsqueeze()).squeeze_dim(0)
    }

    /// What stands at each position of a text on [`Self::reading_side`]: first the token's own
    /// vector, which knows neither place nor context, then the state after each layer, from the
    /// lowest ([`Inspect::states`]). The layers of an encoder-decoder are those of its encoder.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`, with padding behind; output: `[batch, len, d_model]` each
    ///
    /// # Panics
    /// As [`Self::embedding`].
    pub fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let embedded = self.embedding(self.reading_side()).forward(ids.clone());
        [vec![embedded], Inspect::states(self, ids)].concat()
    }
}
