//! One step of Adam (Kingma and Ba, 2015, algorithm 1) for a parameter, flat and outside the
//! autodiff graph.
//!
//! For each element, with `g = scale * gradient` and step `t`:
//!
//! ```text
//! g  += decay w                                  with coupled weight decay
//! m   = β₁ m + (1 - β₁) g
//! v   = β₂ v + (1 - β₂) g²
//! w  -= lr decay w                               with decoupled weight decay
//! w  -= lr (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)
//! ```
//!
//! `scale` clips the gradient. Parameters and running means are flat tensors of the same length, so
//! that an update is one pass over them.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::Tensor;

/// The parameters of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// β₁ and β₂: the decay of the running means of the gradient and of its square.
    pub betas: [f64; 2],
    /// ε, which is added to the root of the squared gradient's mean.
    pub eps: f64,
    /// The learning rate.
    pub lr: f64,
    /// The number of the step, from 1.
    pub step: u64,
    /// The kind and the strength of weight decay.
    pub decay: WeightDecay,
}

/// The kind and the strength of weight decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDecay {
    /// No weight decay.
    None,
    /// L2 regularization: this times the weight is added to the gradient.
    Coupled(f64),
    /// `AdamW` (Loshchilov and Hutter, 2019): this times the learning rate and the weight is
    /// subtracted from the weight.
    Decoupled(f64),
}

/// A parameter with its running means.
#[derive(Clone, Debug)]
pub struct AdamState {
    /// The parameter.
    pub weight: Tensor<1>,
    /// The running mean of the gradient, m.
    pub mean: Tensor<1>,
    /// The running mean of its square, v.
    pub square: Tensor<1>,
}

impl AdamStep {
    /// Returns `1 - β₁ᵗ` and `sqrt(1 - β₂ᵗ)`, in double precision: the difference of two values
    /// near 1 has few digits in f32.
    fn unbias(&self) -> [f64; 2] {
        let [beta_mean, beta_square] = self.betas.map(|beta| 1.0 - beta.powf(self.step as f64));
        [beta_mean, beta_square.sqrt()]
    }
}

/// Returns the parameter and its running means after a step: with `g = scale * gradient`,
/// `m = β₁ m + (1 - β₁) g`, `v = β₂ v + (1 - β₂) g²` and
/// `w -= lr (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + ε)`.
///
/// `scale` is a tensor because it is computed from the norm of all gradients, and a step does not
/// wait for that to be read from the device.
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

/// [`adam`] in terms of Burn's operations.
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
