//! An enum of the architectures that a config file can name; it implements the traits of
//! [`crate::architecture`].

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
use crate::inputs::Source;
use crate::parameter::init::ParamInit;
use crate::registry::{AnyCache, AnyModel};
use crate::side::Side;
use crate::weight::Weight;

/// A model of any architecture, built in or registered.
///
/// It implements [`Predict`](crate::Predict) for every kind of inputs, [`Inspect`] for
/// [`Inputs`](crate::Inputs), and [`Generate`]; it panics on inputs that its architecture does not
/// read.
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
    /// A registered architecture; reads the inputs of its task.
    Registered(AnyModel),
}

/// The cache of a [`Model`]: its state between positions.
#[derive(Clone, Debug)]
pub enum Cache {
    /// Keys and values of a Transformer.
    Transformer(DecoderCache),
    /// States of a recurrent encoder-decoder.
    Rnn(RnnCache),
    /// Keys and values of a text.
    Lm(TextCache),
    /// States of a text.
    RnnLm(States),
    /// The state of a captioner's decoder.
    Captioner(CaptionCache),
    /// The state of a registered architecture.
    Registered(AnyCache),
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
    /// A model of this shape with the given kind of initial values.
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
            ModelShape::Registered(shape) => Self::Registered(shape.build(init)),
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
            Self::Registered(model) => ModelShape::Registered(model.shape().clone()),
        }
    }

    /// The vocabularies and other values that follow from the data.
    pub fn vocabulary(&self) -> Vocabulary {
        self.shape().vocabulary()
    }

    /// The task that it was made for.
    pub fn task(&self) -> Task {
        self.shape().task()
    }

    /// Whether it computes in host memory; see [`computes_on_host`].
    pub fn on_host(&self) -> bool {
        self.devices().first().is_some_and(computes_on_host)
    }

    /// Encodes the source, see [`Generate::start`].
    ///
    /// # Panics
    /// If the architecture generates no text, or reads another kind of source.
    pub fn start(&self, src: impl Into<Source>) -> Cache {
        Generate::start(self, src.into())
    }

    /// Adds one token to every row, see [`Generate::advance`].
    ///
    /// # Panics
    /// If the cache belongs to another architecture.
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        Generate::advance(self, ids, cache)
    }

    /// The side that it encodes: the source, or the only side of a text.
    pub fn reading_side(&self) -> Side {
        self.task().reading_side()
    }

    /// The embedding of a side's tokens, the same for both sides if the model has one.
    ///
    /// # Panics
    /// If it reads images, which have no tokens.
    pub fn embedding(&self, side: Side) -> &Embedding {
        Inspect::embedding(self, side).expect("images have no tokens")
    }

    /// Returns the vector of every token of a side.
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
        let vocab_size = match side {
            Side::Src => self.vocabulary().src_size,
            Side::Tgt => self.vocabulary().tgt_size,
        };
        let ids: Vec<i32> = (0..vocab_size as i32).collect();
        let ids = Tensor::<1, Int>::from_data(&ids[..], device);
        embedding.rows(ids.unsqueeze()).squeeze_dim(0)
    }

    /// Returns the vectors at each position of a text on [`Self::reading_side`]: first the
    /// embedding of the token, which depends neither on position nor on context, then the state
    /// after each layer, from the lowest ([`Inspect::states`]). The layers of an encoder-decoder
    /// are those of its encoder.
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
