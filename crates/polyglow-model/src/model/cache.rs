//! The cache of a model of any architecture.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};

use burn::tensor::Device;

use crate::architecture::Generate;

/// The cache of a [`Model`](crate::Model): its state between positions.
pub struct Cache(Box<dyn HiddenCache>);

impl Cache {
    /// Hides the type of the cache of a model of the type `M`.
    pub(super) fn new<M: Generate<Cache: 'static> + 'static>(cache: M::Cache) -> Self {
        Self(Box::new(CacheOf::<M>(cache)))
    }

    /// Returns the cache as a model of the type `M` has it.
    ///
    /// # Panics
    /// If it belongs to another architecture.
    pub(super) fn typed<M: Generate<Cache: 'static> + 'static>(&mut self) -> &mut M::Cache {
        let cache: &mut dyn Any = &mut *self.0;
        let CacheOf::<M>(cache) = cache
            .downcast_mut()
            .expect("a model needs a cache of its own");
        cache
    }

    /// Keeps rows, see [`Generate::select`].
    pub(super) fn select(&mut self, rows: &[usize], device: &Device) {
        self.0.select(rows, device);
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl Debug for Cache {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The methods of a cache without its type.
trait HiddenCache: Any + Debug + Send {
    fn clone_boxed(&self) -> Box<dyn HiddenCache>;
    fn select(&mut self, rows: &[usize], device: &Device);
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
}
