//! Adam (Kingma and Ba, 2015) and `AdamW` (Loshchilov and Hutter, 2019).

use burn::tensor::Tensor;
use polyglow_kernels::{AdamState, AdamStep, WeightDecay, adam};

use super::{ParameterStep, UpdateRule, parts};

/// `m = β₁ m + (1 - β₁) g`, `v = β₂ v + (1 - β₂) g²`,
/// `w -= lr (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)`.
///
/// Weight decay: `adam` adds `λ w` to the gradient, `adamw` subtracts `lr λ w` from the weight.
/// State: `mean` and `square`, twice the weights.
///
/// `t` is the number of the step, and steps that were skipped count: it is known without a read
/// from the device, and a resumed run has the same. With PyTorch's gradient scaler, which does not
/// count them, the bias would be corrected for the steps that went into `m` and `v` alone. The
/// difference: after a skipped step 1, step 2 is about a quarter smaller (with the default betas);
/// after some `1 / (1 - β₂)` steps nothing is left of it, and steps skipped later change nothing.
#[derive(Debug)]
pub(super) struct Adam {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub eps: f64,
    /// `AdamW`.
    pub decoupled: bool,
}

impl UpdateRule for Adam {
    fn state(&self, _: &str, shape: &[usize]) -> Vec<(&'static str, usize)> {
        let len = shape.iter().product();
        vec![("mean", len), ("square", len)]
    }

    fn is_elementwise(&self) -> bool {
        true
    }

    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        let decay = match step.weight_decay {
            0.0 => WeightDecay::None,
            decay if self.decoupled => WeightDecay::Decoupled(decay),
            decay => WeightDecay::Coupled(decay),
        };
        let [mean, square] = parts(state);
        let old = AdamState {
            weight,
            mean,
            square,
        };
        let adam_step = AdamStep {
            betas: self.betas,
            eps: self.eps,
            lr: step.lr,
            step: step.step,
            decay,
        };
        let new = adam(old, gradient, step.scale, adam_step);
        (new.weight, vec![new.mean, new.square])
    }
}
