//! A model whose type is hidden, so that one [`Model`](crate::Model) may be any architecture that
//! was registered.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::{Device, Int, Tensor};

use super::visit::{AnyMapper, AnyVisitor, Mapper, Visitor};
use super::{FromInputs, RegisteredShape};
use crate::architecture::{Generate, Inspect, Predict};
use crate::attention::AttentionMaps;
use crate::embedding::Embedding;
use crate::inputs::{Inputs, Source};
use crate::loss::prediction::Prediction;
use crate::side::Side;

/// A model of a registered architecture.
pub struct AnyModel {
    model: Box<dyn HiddenModel>,
    shape: RegisteredShape,
}

impl AnyModel {
    /// Hides the type of a model that writes text.
    pub(super) fn writer<M>(model: M, shape: RegisteredShape) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Generate<Cache: 'static> + 'static,
    {
        Self::hide::<M, Writes>(model, shape)
    }

    /// Hides the type of a model that writes no text.
    pub(super) fn reader<M>(model: M, shape: RegisteredShape) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Sync + 'static,
    {
        Self::hide::<M, WritesNothing>(model, shape)
    }

    fn hide<M, W>(model: M, shape: RegisteredShape) -> Self
    where
        M: Inspect<Inputs: FromInputs> + Sync + 'static,
        W: Writing<M> + 'static,
    {
        Self {
            model: Box::new(Hidden {
                model,
                writing: PhantomData::<W>,
            }),
            shape,
        }
    }

    /// The shape that it was built with.
    pub fn shape(&self) -> &RegisteredShape {
        &self.shape
    }

    /// Replaces the model by what `change` makes of it.
    fn map_model(self, change: impl FnOnce(Box<dyn HiddenModel>) -> Box<dyn HiddenModel>) -> Self {
        Self {
            model: change(self.model),
            shape: self.shape,
        }
    }
}

impl Clone for AnyModel {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone_boxed(),
            shape: self.shape.clone(),
        }
    }
}

impl Debug for AnyModel {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

impl Module for AnyModel {
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

impl ModuleDisplayDefault for AnyModel {
    fn content(&self, content: Content) -> Option<Content> {
        Some(content.set_top_level_type(self.shape.name()))
    }
}

impl ModuleDisplay for AnyModel {}

impl Predict<Inputs> for AnyModel {
    /// # Panics
    /// If the architecture does not read inputs of this kind.
    fn predict(&self, inputs: Inputs) -> Prediction<'_> {
        self.model.predict(inputs)
    }

    /// # Panics
    /// As [`Self::predict`].
    fn predict_aligned(&self, inputs: Inputs) -> (Prediction<'_>, Option<Tensor<3>>) {
        self.model.predict_aligned(inputs)
    }
}

impl Generate for AnyModel {
    type Cache = AnyCache;

    /// # Panics
    /// If it was registered as a model that writes no text.
    fn start(&self, src: Source) -> AnyCache {
        self.model.start(src)
    }

    /// # Panics
    /// If the cache belongs to another architecture.
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut AnyCache) -> Tensor<2> {
        self.model.advance(ids, cache)
    }

    fn select(cache: &mut AnyCache, rows: &[usize], device: &Device) {
        cache.0.select(rows, device);
    }
}

impl Inspect for AnyModel {
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

/// The state of any model between positions.
pub struct AnyCache(Box<dyn HiddenCache>);

impl Clone for AnyCache {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl Debug for AnyCache {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The methods of a cache without its type.
trait HiddenCache: Debug + Send {
    fn clone_boxed(&self) -> Box<dyn HiddenCache>;
    fn select(&mut self, rows: &[usize], device: &Device);
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The cache of a model of the type `M`.
struct CacheOf<M: Generate>(M::Cache);

impl<M: Generate> Debug for CacheOf<M> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<M: Generate<Cache: 'static> + 'static> HiddenCache for CacheOf<M> {
    fn clone_boxed(&self) -> Box<dyn HiddenCache> {
        Box::new(Self(self.0.clone()))
    }

    fn select(&mut self, rows: &[usize], device: &Device) {
        M::select(&mut self.0, rows, device);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The methods of [`Module`], [`Predict`], [`Generate`] and [`Inspect`] without types.
trait HiddenModel: Debug + Send + Sync {
    fn clone_boxed(&self) -> Box<dyn HiddenModel>;
    fn collect_devices(&self, devices: Devices) -> Devices;
    fn fork(self: Box<Self>, device: &Device) -> Box<dyn HiddenModel>;
    fn to_device(self: Box<Self>, device: &Device) -> Box<dyn HiddenModel>;
    fn train(self: Box<Self>) -> Box<dyn HiddenModel>;
    fn valid(&self) -> Box<dyn HiddenModel>;
    fn materialize(self: Box<Self>) -> Box<dyn HiddenModel>;
    fn visit(&self, visitor: &mut dyn AnyVisitor);
    fn map(self: Box<Self>, mapper: &mut dyn AnyMapper) -> Box<dyn HiddenModel>;
    fn predict(&self, inputs: Inputs) -> Prediction<'_>;
    fn predict_aligned(&self, inputs: Inputs) -> (Prediction<'_>, Option<Tensor<3>>);
    fn start(&self, src: Source) -> AnyCache;
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut AnyCache) -> Tensor<2>;
    fn attention(&self, inputs: Inputs) -> AttentionMaps;
    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>>;
    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>>;
    fn embedding(&self, side: Side) -> Option<&Embedding>;
}

/// A model, and whether it writes text.
struct Hidden<M, W> {
    model: M,
    writing: PhantomData<W>,
}

impl<M, W> Hidden<M, W> {
    fn boxed(model: M) -> Box<Self> {
        Box::new(Self {
            model,
            writing: PhantomData,
        })
    }
}

impl<M: Debug, W> Debug for Hidden<M, W> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

impl<M, W> HiddenModel for Hidden<M, W>
where
    M: Inspect<Inputs: FromInputs> + Sync + 'static,
    W: Writing<M> + 'static,
{
    fn clone_boxed(&self) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.clone())
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        self.model.collect_devices(devices)
    }

    fn fork(self: Box<Self>, device: &Device) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.fork(device))
    }

    fn to_device(self: Box<Self>, device: &Device) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.to_device(device))
    }

    fn train(self: Box<Self>) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.train())
    }

    fn valid(&self) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.valid())
    }

    fn materialize(self: Box<Self>) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.materialize())
    }

    fn visit(&self, visitor: &mut dyn AnyVisitor) {
        self.model.visit(&mut Visitor(visitor));
    }

    fn map(self: Box<Self>, mapper: &mut dyn AnyMapper) -> Box<dyn HiddenModel> {
        Self::boxed(self.model.map(&mut Mapper(mapper)))
    }

    fn predict(&self, inputs: Inputs) -> Prediction<'_> {
        self.model.predict(read(inputs))
    }

    fn predict_aligned(&self, inputs: Inputs) -> (Prediction<'_>, Option<Tensor<3>>) {
        self.model.predict_aligned(read(inputs))
    }

    fn start(&self, src: Source) -> AnyCache {
        W::start(&self.model, src)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut AnyCache) -> Tensor<2> {
        W::advance(&self.model, ids, cache)
    }

    fn attention(&self, inputs: Inputs) -> AttentionMaps {
        self.model.attention(read(inputs))
    }

    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>> {
        self.model.cross_attention(read(inputs))
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.model.states(ids)
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        self.model.embedding(side)
    }
}

/// Returns the inputs as a model reads them.
fn read<I: FromInputs>(inputs: Inputs) -> I {
    let kind = inputs.kind();
    I::from_inputs(inputs).unwrap_or_else(|| panic!("this model does not read {kind}"))
}

/// How a model of the type `M` writes text, if it does.
trait Writing<M>: Send + Sync {
    fn start(model: &M, src: Source) -> AnyCache;
    fn advance(model: &M, ids: Tensor<2, Int>, cache: &mut AnyCache) -> Tensor<2>;
}

struct Writes;

impl<M: Generate<Cache: 'static> + 'static> Writing<M> for Writes {
    fn start(model: &M, src: Source) -> AnyCache {
        AnyCache(Box::new(CacheOf::<M>(model.start(src))))
    }

    fn advance(model: &M, ids: Tensor<2, Int>, cache: &mut AnyCache) -> Tensor<2> {
        let cache = cache.0.as_any().downcast_mut::<CacheOf<M>>();
        let CacheOf(cache) = cache.expect("a model needs a cache of its own");
        model.advance(ids, cache)
    }
}

struct WritesNothing;

impl<M> Writing<M> for WritesNothing {
    fn start(_: &M, _: Source) -> AnyCache {
        panic!("this model writes no text")
    }

    fn advance(_: &M, _: Tensor<2, Int>, _: &mut AnyCache) -> Tensor<2> {
        panic!("this model writes no text")
    }
}
