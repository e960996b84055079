//! A model of any architecture, built in or registered; it implements the traits of
//! [`crate::architecture`].

mod cache;
mod hidden;
mod visit;

use std::any::Any;
use std::fmt::{self, Debug, Formatter};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::AttentionMaps;
use crate::config::{ModelShape, Task, Vocabulary};
use crate::embedding::Embedding;
use crate::host::computes_on_host;
use crate::inputs::{Inputs, Source};
use crate::loss::prediction::Prediction;
use crate::registry::FromInputs;
use crate::side::Side;
use crate::weight::Weight;
pub use cache::Cache;
use hidden::{Hidden, HiddenModel};
pub(crate) use hidden::{Writes, WritesNothing, Writing};

/// A model of any architecture, built in or registered.
///
/// It implements [`Predict`] for every kind of inputs, [`Inspect`] for [`Inputs`], and
/// [`Generate`]; it panics on inputs that its architecture does not read. Code that needs the
/// layers of an architecture asks for its type by [`Self::downcast_ref`].
pub struct Model {
    model: Box<dyn HiddenModel>,
    shape: ModelShape,
}

impl Model {
    /// Hides the type of a model of this shape that writes text.
    pub(crate) fn writer<M>(model: M, shape: impl Into<ModelShape>) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Generate<Cache: 'static> + 'static,
    {
        Self::hide::<M, Writes>(model, shape)
    }

    /// Hides the type of a model of this shape that writes no text.
    pub(crate) fn reader<M>(model: M, shape: impl Into<ModelShape>) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Sync + 'static,
    {
        Self::hide::<M, WritesNothing>(model, shape)
    }

    /// Hides the type of a model of this shape, which writes text as `W` says.
    pub(crate) fn hide<M, W>(model: M, shape: impl Into<ModelShape>) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Sync + 'static,
        W: Writing<M>,
    {
        Self {
            model: Hidden::<M, W>::boxed(model),
            shape: shape.into(),
        }
    }

    /// Returns the model as its own type, such as [`Transformer`](crate::Transformer); `None` if it
    /// has another one.
    pub fn downcast_ref<M: 'static>(&self) -> Option<&M> {
        self.model.as_any().downcast_ref()
    }

    /// Returns the model without its type, to change it, and its shape.
    pub(crate) fn parts_mut(&mut self) -> (&mut dyn Any, &ModelShape) {
        (self.model.as_any_mut(), &self.shape)
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// The vocabularies and other values that follow from the data.
    pub fn vocabulary(&self) -> Vocabulary {
        self.shape.vocabulary()
    }

    /// The task that it was made for.
    pub fn task(&self) -> Task {
        self.shape.task()
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
        self.model.start(src.into())
    }

    /// Adds one token to every row, see [`Generate::advance`].
    ///
    /// # Panics
    /// If the cache belongs to another architecture.
    pub fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        self.model.advance(ids, cache)
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

    /// Replaces the model by what `change` makes of it.
    fn map_model(self, change: impl FnOnce(Box<dyn HiddenModel>) -> Box<dyn HiddenModel>) -> Self {
        Self {
            model: change(self.model),
            shape: self.shape,
        }
    }
}

impl Clone for Model {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone_boxed(),
            shape: self.shape.clone(),
        }
    }
}

impl Debug for Model {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

impl Module for Model {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.model.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.map_model(|model| model.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.map_model(|model| model.to_device(device))
    }

    fn train(self) -> Self {
        self.map_model(|model| model.train())
    }

    fn valid(&self) -> Self {
        Self {
            model: self.model.valid(),
            shape: self.shape.clone(),
        }
    }

    fn materialize(self) -> Self {
        self.map_model(|model| model.materialize())
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.model.visit(visitor);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.map_model(|model| model.map(mapper))
    }
}

impl ModuleDisplayDefault for Model {
    fn content(&self, content: Content) -> Option<Content> {
        Some(content.set_top_level_type(self.model.type_name()))
    }
}

impl ModuleDisplay for Model {}

impl<I: Into<Inputs>> Predict<I> for Model {
    /// # Panics
    /// If the architecture does not read inputs of this kind.
    fn predict(&self, inputs: I) -> Prediction<'_> {
        self.model.predict(inputs.into())
    }

    /// # Panics
    /// As [`Self::predict`].
    fn predict_aligned(&self, inputs: I) -> (Prediction<'_>, Option<Tensor<3>>) {
        self.model.predict_aligned(inputs.into())
    }
}

impl Generate for Model {
    type Cache = Cache;

    /// # Panics
    /// If it is for word vectors, labels or masked tokens, and generates no text; or reads another
    /// kind of source.
    fn start(&self, src: Source) -> Cache {
        self.model.start(src)
    }

    /// # Panics
    /// If the cache belongs to another architecture.
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        self.model.advance(ids, cache)
    }

    fn select(cache: &mut Cache, rows: &[usize], device: &Device) {
        cache.select(rows, device);
    }
}

impl Inspect for Model {
    type Inputs = Inputs;

    fn attention(&self, inputs: Inputs) -> AttentionMaps {
        self.model.attention(inputs)
    }

    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>> {
        self.model.cross_attention(inputs)
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.model.states(ids)
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        self.model.embedding(side)
    }
}
