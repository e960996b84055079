//! Lion (Chen et al., 2023): the sign of a running mean of the gradient.

use burn::tensor::Tensor;

use super::{ParameterStep, UpdateRule, parts};

/// `w -= lr (sign(β₁ m + (1 - β₁) g) + λ w)`, `m = β₂ m + (1 - β₂) g`.
///
/// Every weight changes by the learning rate, which is therefore to be a third to a tenth of
/// Adam's. State: `mean`, as large as the weights. A step that was skipped leaves no trace, as
/// nothing here depends on the number of the step.
#[derive(Debug)]
pub(super) struct Lion {
    /// β₁ and β₂.
    pub betas: [f64; 2],
}

impl UpdateRule for Lion {
    fn state(&self, _: &str, shape: &[usize]) -> Vec<(&'static str, usize)> {
        vec![("mean", shape.iter().product())]
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
        let [mean] = parts(state);
        let [beta_direction, beta_mean] = self.betas;
        let gradient = gradient * step.scale.clone();
        let direction =
            (mean.clone() * beta_direction + gradient.clone() * (1.0 - beta_direction)).sign();
        let mean = mean * beta_mean + gradient * (1.0 - beta_mean);
        let weight = if step.weight_decay > 0.0 {
            weight * (1.0 - step.lr * step.weight_decay)
        } else {
            weight
        };
        (weight - direction * step.lr, vec![mean])
    }
}
