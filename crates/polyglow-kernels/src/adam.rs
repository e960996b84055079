//! One step of Adam (Kingma and Ba, 2015, algorithm 1) for a parameter, flat and outside the
//! autodiff graph.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::Tensor;

/// What a step depends on beside its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Decay of the running means of the gradient and of its square, β₁ and β₂.
    pub betas: [f64; 2],
    /// Added to the root of the squared gradient's mean, ε.
    pub eps: f64,
    /// The learning rate.
    pub lr: f64,
    /// The step's number, from 1.
    pub step: u64,
    /// How weights shrink.
    pub decay: WeightDecay,
}

/// How weights shrink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDecay {
    /// Not at all.
    None,
    /// This times the weight is added to the gradient.
    Coupled(f64),
    /// This times the weight and the learning rate is taken off the weight (Loshchilov and Hutter,
    /// 2019).
    Decoupled(f64),
}

/// A parameter with its running means.
#[derive(Clone, Debug)]
pub struct AdamState {
    /// The parameter.
    pub weight: Tensor<1>,
    /// Running mean of the gradient, m.
    pub mean: Tensor<1>,
    /// Running mean of its square, v.
    pub square: Tensor<1>,
}

impl AdamStep {
    /// `1 - β₁ᵗ` and `sqrt(1 - β₂ᵗ)`, in double precision: near 1 an `f32` would keep few digits of
    /// them.
    fn unbias(&self) -> [f64; 2] {
        let [beta_mean, beta_square] = self.betas.map(|beta| 1.0 - beta.powf(self.step as f64));
        [beta_mean, beta_square.sqrt()]
    }
}

/// With `g = scale * gradient`: `m = β₁ m + (1 - β₁) g`, `v = β₂ v + (1 - β₂) g²`,
/// `w -= lr (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)`.
///
/// `scale` is a tensor, because it is made from the norm of all gradients, which no step reads back
/// from its device.
///
/// # Shapes
/// - state and `gradient`: `[len]`; `scale`: `[1]`
pub fn adam(state: AdamState, gradient: Tensor<1>, scale: &Tensor<1>, step: AdamStep) -> AdamState {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&state.weight) == Some(crate::flex::Mode::Inference) {
        return flex::adam(state, gradient, scale, step);
    }
    plain(state, gradient, scale, step)
}

fn plain(state: AdamState, gradient: Tensor<1>, scale: &Tensor<1>, step: AdamStep) -> AdamState {
    let AdamState {
        mut weight,
        mean,
        square,
    } = state;
    let [beta_mean, beta_square] = step.betas;
    let [unbias_mean, unbias_square] = step.unbias();
    let mut gradient = gradient * scale.clone();
    match step.decay {
        WeightDecay::None => {}
        WeightDecay::Coupled(decay) => gradient = gradient + weight.clone() * decay,
        WeightDecay::Decoupled(decay) => weight = weight * (1.0 - step.lr * decay),
    }
    let mean = mean * beta_mean + gradient.clone() * (1.0 - beta_mean);
    let square = square * beta_square + gradient.clone() * gradient * (1.0 - beta_square);
    let root = square.clone().sqrt() / unbias_square + step.eps;
    let weight = weight - mean.clone() / root * (step.lr / unbias_mean);
    AdamState {
        weight,
        mean,
        square,
    }
}
