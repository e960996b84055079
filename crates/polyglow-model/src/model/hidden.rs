//! A model whose type is hidden, so that one [`Model`](crate::Model) may be any architecture.

use std::any::{Any, type_name};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use burn::module::Devices;
use burn::tensor::{Device, Int, Tensor};

use super::cache::Cache;
use super::visit::{AnyMapper, AnyVisitor, Mapper, Visitor};
use crate::architecture::{Generate, Inspect};
use crate::attention::AttentionMaps;
use crate::embedding::Embedding;
use crate::inputs::{Inputs, Source};
use crate::loss::prediction::Prediction;
use crate::registry::FromInputs;
use crate::side::Side;

/// The methods of [`Module`], [`Predict`](crate::Predict), [`Generate`] and [`Inspect`] without
/// types.
pub(super) trait HiddenModel: Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn type_name(&self) -> &'static str;
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
    fn start(&self, src: Source) -> Cache;
    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2>;
    fn attention(&self, inputs: Inputs) -> AttentionMaps;
    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>>;
    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>>;
    fn embedding(&self, side: Side) -> Option<&Embedding>;
}

/// A model of the type `M` that writes text as `W` says.
pub(super) struct Hidden<M, W> {
    model: M,
    writing: PhantomData<W>,
}

impl<M, W> Hidden<M, W> {
    pub(super) fn boxed(model: M) -> Box<Self> {
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
    W: Writing<M>,
{
    fn as_any(&self) -> &dyn Any {
        &self.model
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.model
    }

    fn type_name(&self) -> &'static str {
        type_name::<M>()
    }

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
        self.model.predict(read::<M>(inputs))
    }

    fn predict_aligned(&self, inputs: Inputs) -> (Prediction<'_>, Option<Tensor<3>>) {
        self.model.predict_aligned(read::<M>(inputs))
    }

    fn start(&self, src: Source) -> Cache {
        W::start(&self.model, src)
    }

    fn advance(&self, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        W::advance(&self.model, ids, cache)
    }

    fn attention(&self, inputs: Inputs) -> AttentionMaps {
        let inputs = M::Inputs::from_inputs(inputs);
        inputs.map_or_else(AttentionMaps::default, |inputs| {
            self.model.attention(inputs)
        })
    }

    fn cross_attention(&self, inputs: Inputs) -> Vec<Tensor<3>> {
        let inputs = M::Inputs::from_inputs(inputs);
        inputs.map_or_else(Vec::new, |inputs| self.model.cross_attention(inputs))
    }

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        self.model.states(ids)
    }

    fn embedding(&self, side: Side) -> Option<&Embedding> {
        self.model.embedding(side)
    }
}

/// Returns the inputs as a model of the type `M` reads them.
fn read<M: Inspect<Inputs: FromInputs>>(inputs: Inputs) -> M::Inputs {
    let kind = inputs.kind();
    M::Inputs::from_inputs(inputs)
        .unwrap_or_else(|| panic!("a model `{}` does not read {kind}", type_name::<M>()))
}

/// Writes text with a model of the type `M`, token by token.
pub(crate) trait Writing<M>: Send + Sync + 'static {
    fn start(model: &M, src: Source) -> Cache;
    fn advance(model: &M, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2>;
}

/// The model writes text, by [`Generate`].
pub(crate) struct Writes;

impl<M: Generate<Cache: 'static> + 'static> Writing<M> for Writes {
    fn start(model: &M, src: Source) -> Cache {
        Cache::new::<M>(model.start(src))
    }

    fn advance(model: &M, ids: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        model.advance(ids, cache.typed::<M>())
    }
}

/// The model writes no text.
pub(crate) struct WritesNothing;

impl<M> Writing<M> for WritesNothing {
    fn start(_: &M, _: Source) -> Cache {
        panic!("a model `{}` writes no text", type_name::<M>())
    }

    fn advance(_: &M, _: Tensor<2, Int>, _: &mut Cache) -> Tensor<2> {
        panic!("a model `{}` writes no text", type_name::<M>())
    }
}
