//! The shape of a model: its architecture, sizes and variants.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};

use burn::tensor::Device;

use super::{Task, Vocabulary};
use crate::attention::AttentionKind;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::parameter::quantization::NamedMatrix;
use crate::precision::Precision;

/// The complete shape of a model of any architecture, see [`super::ModelConfig::shape`].
///
/// Code that needs the sizes of one architecture asks for its type by [`Self::downcast_ref`].
pub struct ModelShape(Box<dyn Shape>);

/// The shape of an architecture, which makes a model and knows what a pass over a batch costs.
///
/// A batch is its rows, source positions and target positions.
pub(crate) trait Shape: AnyShape {
    /// Builds a model with the given kind of initial values.
    fn build(&self, init: ParamInit) -> Model;

    /// The task of its models.
    fn task(&self) -> Task;

    /// Width of every hidden state.
    fn d_model(&self) -> usize;

    /// The sizes and ids that the data decides.
    fn vocabulary(&self) -> Vocabulary;

    /// The longest sequence with EOS, in tokens.
    fn max_len_mut(&mut self) -> &mut usize;

    /// Sets the precision of products, if it has any.
    fn set_precision(&mut self, precision: Precision);

    /// The number of layers and of heads that have attention weights of a kind; zeros if none.
    fn attention_size(&self, _kind: AttentionKind) -> (usize, usize) {
        (0, 0)
    }

    /// Floating-point operations of the matrix products of a forward pass, two for each
    /// multiplication.
    fn forward_flops(&self, batch: [usize; 3]) -> f64;

    /// The number of elements that a forward pass keeps for the backward pass, with the kernels of
    /// polyglow-kernels or without.
    fn activations(&self, batch: [usize; 3], kernels: bool) -> u64;

    /// Lists the matrices of a model of this shape that may have 8 bits; none if
    /// [`ModelConfig::has_int8`](super::ModelConfig::has_int8) is false.
    fn matrices<'m>(&self, _model: &'m mut dyn Any) -> Vec<NamedMatrix<'m>> {
        Vec::new()
    }
}

/// The parts of [`Shape`] that are the same for all types.
pub(crate) trait AnyShape: Any + Debug + Send + Sync {
    fn clone_boxed(&self) -> Box<dyn Shape>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<S: Shape + Clone + PartialEq> AnyShape for S {
    fn clone_boxed(&self) -> Box<dyn Shape> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

impl<S: Shape> From<S> for ModelShape {
    fn from(shape: S) -> Self {
        Self(Box::new(shape))
    }
}

impl Clone for ModelShape {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl PartialEq for ModelShape {
    fn eq(&self, other: &Self) -> bool {
        let other: &dyn Any = &*other.0;
        self.0.equals(other)
    }
}

impl Debug for ModelShape {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl ModelShape {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to
    /// train it).
    pub fn init(&self, seed: u64, device: &Device) -> Model {
        self.0.build(ParamInit::new(seed, device))
    }

    /// A model whose parameters are zeros, to be replaced by those of a file.
    pub fn blank(&self, device: &Device) -> Model {
        self.0.build(ParamInit::zeros(device))
    }

    /// Returns the shape as its own type, such as [`TransformerShape`](super::TransformerShape);
    /// `None` if it has another one.
    pub fn downcast_ref<S: 'static>(&self) -> Option<&S> {
        let shape: &dyn Any = &*self.0;
        shape.downcast_ref()
    }

    pub(crate) fn matrices<'m>(&self, model: &'m mut dyn Any) -> Vec<NamedMatrix<'m>> {
        self.0.matrices(model)
    }

    /// Sets the precision of products; word vectors have none.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.0.set_precision(precision);
        self
    }

    /// Raises the maximum length to at least `len` tokens, EOS included.
    #[must_use]
    pub fn with_room_for(mut self, len: usize) -> Self {
        let max_len = self.0.max_len_mut();
        *max_len = len.max(*max_len);
        self
    }

    /// The task of its models.
    pub fn task(&self) -> Task {
        self.0.task()
    }

    /// Width of every hidden state.
    pub fn d_model(&self) -> usize {
        self.0.d_model()
    }

    /// The sizes and ids that the data decides.
    pub fn vocabulary(&self) -> Vocabulary {
        self.0.vocabulary()
    }

    /// The number of layers and of heads that have attention weights of a kind; zeros if none.
    pub fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        self.0.attention_size(kind)
    }

    /// Floating-point operations of the matrix products of a forward pass: two for each
    /// multiplication.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        self.0.forward_flops(batch)
    }

    /// The part of [`Self::forward_flops`] that the output layer takes for one target position.
    pub fn output_flops(&self) -> f64 {
        2.0 * (self.d_model() * self.vocabulary().tgt_size) as f64
    }

    /// Estimates the number of elements that a forward pass keeps for the backward pass, with the
    /// kernels of polyglow-kernels or without.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        self.0.activations(batch, kernels)
    }
}
