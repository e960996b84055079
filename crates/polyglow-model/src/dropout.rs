//! Dropout (Srivastava et al., 2014), active on devices that differentiate and nowhere else.

use burn::module::Module;
use burn::tensor::{Distribution, Tensor};

/// Zeroes each number with probability `prob` and scales the others by `1 / (1 - prob)`.
///
/// It acts only on tensors of an autodiff device, so a model moved to a plain device evaluates without it. Masks come
/// from the device's generator; the training step seeds that from (seed, step).
#[derive(Module, Debug)]
pub struct Dropout {
    prob: f64,
}

impl Dropout {
    /// `prob` is a probability below 1.
    pub fn new(prob: f64) -> Self {
        Self { prob }
    }

    /// # Shapes
    /// - `input`: any; output: as `input`
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        if self.prob == 0.0 || !input.is_autodiff() {
            return input;
        }
        let keep = 1.0 - self.prob;
        // The scaled mask is made outside the graph, so the backward pass holds one factor and nothing else.
        let mask = Tensor::<D>::random(input.dims(), Distribution::Bernoulli(keep), &input.device().inner());
        input * (mask * (1.0 / keep))
    }
}
