//! Complete shapes: what a model is before it has weights.

use burn::tensor::Device;

use super::{ModelShape, Task, Vocabulary};
use crate::attention::AttentionKind;
use crate::init::ParamInit;
use crate::model::Model;
use crate::precision::Precision;

/// What every shape can tell, and make. A default is the answer of one that has no such thing.
pub(crate) trait Shape {
    /// A model of this shape.
    fn build(&self, init: ParamInit) -> Model;

    /// As [`ModelShape::task`].
    fn task(&self) -> Task;

    /// As [`ModelShape::d_model`].
    fn d_model(&self) -> usize;

    /// As [`ModelShape::vocabulary`].
    fn vocabulary(&self) -> Vocabulary;

    /// The longest sequence, in tokens with the end mark.
    fn max_len(&mut self) -> &mut usize;

    /// In what products are computed; none where there are no matrix products.
    fn precision(&mut self) -> Option<&mut Precision>;

    /// As [`ModelShape::attention`].
    fn attention(&self, _: AttentionKind) -> (usize, usize) {
        (0, 0)
    }

    /// As [`ModelShape::forward_flops`].
    fn forward_flops(&self, batch: [usize; 3]) -> f64;

    /// As [`ModelShape::activations`].
    fn activations(&self, batch: [usize; 3], kernels: bool) -> u64;
}

impl ModelShape {
    /// A model with fresh weights, a function of `seed` alone, on `device` (an autodiff device to train it).
    pub fn init(&self, seed: u64, device: &Device) -> Model {
        self.shape().build(ParamInit::new(seed, device))
    }

    /// A model whose parameters are zeros, until they are replaced by those of a file.
    pub fn blank(&self, device: &Device) -> Model {
        self.shape().build(ParamInit::zeros(device))
    }

    /// The same shape with products in another precision.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        if let Some(own) = self.shape_mut().precision() {
            *own = precision;
        }
        self
    }

    /// The same shape for sequences of at least this length, in tokens with the end mark.
    #[must_use]
    pub fn with_room_for(mut self, len: usize) -> Self {
        let max_len = self.shape_mut().max_len();
        *max_len = len.max(*max_len);
        self
    }

    /// What its models are for.
    pub fn task(&self) -> Task {
        self.shape().task()
    }

    /// Width of every hidden state.
    pub fn d_model(&self) -> usize {
        self.shape().d_model()
    }

    /// What the data decided.
    pub fn vocabulary(&self) -> Vocabulary {
        self.shape().vocabulary()
    }

    /// How many layers and heads have weights of a kind.
    pub fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        self.shape().attention(kind)
    }

    /// Floating-point operations of the matrix products of a forward pass: two for each number that is multiplied.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        self.shape().forward_flops(batch)
    }

    /// About how many numbers a forward pass keeps for the backward pass, with the kernels of polyglow-kernels or without.
    ///
    /// # Shapes
    /// - `batch`: rows, source positions, target positions
    pub fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        self.shape().activations(batch, kernels)
    }
}
