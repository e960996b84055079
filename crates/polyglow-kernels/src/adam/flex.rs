//! Adam on the CPU: one pass over four arrays of the same length (weights, their two running means
//! and gradients), three of which are overwritten in place, with the formulas of [`crate::adam()`].
//!
//! The pass is bound by memory, not by arithmetic: Burn's operations would take a pass each.
//! All that is the same for all elements is computed once, in f64 ([`Coefficients`]).

use burn::backend::TensorData;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{AdamState, AdamStep, WeightDecay};
use crate::flex::vector::{Kernel, vectorized};
use crate::flex::{close, from_data, into_data, open_untracked};

/// Elements in a task: 256 KiB of the four arrays together, enough to be worth waking a thread.
const PART: usize = 1 << 14;

/// [`super::adam`] on flex.
pub(super) fn adam(
    state: AdamState,
    gradient: Tensor<1>,
    scale: &Tensor<1>,
    step: AdamStep,
) -> AdamState {
    let AdamState {
        weight,
        mean,
        square,
    } = state;
    let [mut weight, mut mean, mut square, gradient] = [weight, mean, square, gradient].map(open);
    let coefficients = Coefficients::new(
        step,
        scale
            .clone()
            .into_data()
            .iter::<f32>()
            .next()
            .expect("one scale"),
    );
    let len = values(&mut weight).len();
    // Checked, because `zip` would silently stop at the shortest.
    let lens = [
        values(&mut mean).len(),
        values(&mut square).len(),
        gradient.num_elements(),
    ];
    assert_eq!(
        lens, [len; 3],
        "a parameter, its running means and its gradient"
    );
    let slices =
        [&mut weight, &mut mean, &mut square].map(|data| values(data).par_chunks_mut(PART));
    let [weights, means, squares] = slices;
    let gradients = gradient
        .as_slice::<f32>()
        .expect("flex trains in `f32`")
        .par_chunks(PART);
    weights.zip(means).zip(squares).zip(gradients).for_each(
        |(((weights, means), squares), gradients)| {
            vectorized(Update {
                weights,
                means,
                squares,
                gradients,
                coefficients,
            });
        },
    );
    let [weight, mean, square] = [weight, mean, square].map(|data| close(from_data(data)));
    AdamState {
        weight,
        mean,
        square,
    }
}

/// The data of a tensor without autodiff, to be overwritten.
fn open(tensor: Tensor<1>) -> TensorData {
    into_data(open_untracked(tensor))
}

/// The elements of these data.
fn values(data: &mut TensorData) -> &mut [f32] {
    data.as_mut_slice().expect("flex trains in `f32`")
}

/// [`AdamStep`] for the inner loop, as factors of every element: products in place of quotients,
/// and no branch for the kind of weight decay.
#[derive(Clone, Copy)]
struct Coefficients {
    /// The factor of gradients.
    scale: f32,
    /// The factor of the weight that is added to the gradient.
    coupled: f32,
    /// `1 - lr decay` with decoupled weight decay, otherwise 1.
    keep_weight: f32,
    /// β₁.
    keep_mean: f32,
    /// 1 - β₁.
    add_mean: f32,
    /// β₂.
    keep_square: f32,
    /// 1 - β₂.
    add_square: f32,
    /// 1 / sqrt(1 - β₂ᵗ).
    unbias_square: f32,
    eps: f32,
    /// lr / (1 - β₁ᵗ).
    rate: f32,
}

impl Coefficients {
    /// Computes the factors of a step, with `scale` for gradients.
    fn new(step: AdamStep, scale: f32) -> Self {
        let [beta_mean, beta_square] = step.betas;
        let [unbias_mean, unbias_square] = step.unbias();
        let (coupled, decoupled) = match step.decay {
            WeightDecay::None => (0.0, 0.0),
            WeightDecay::Coupled(decay) => (decay, 0.0),
            WeightDecay::Decoupled(decay) => (0.0, decay),
        };
        // Rounded to f32 last: a β₂ near 1 has few digits left for its distance from 1.
        Self {
            scale,
            coupled: coupled as f32,
            keep_weight: (1.0 - step.lr * decoupled) as f32,
            keep_mean: beta_mean as f32,
            add_mean: (1.0 - beta_mean) as f32,
            keep_square: beta_square as f32,
            add_square: (1.0 - beta_square) as f32,
            unbias_square: (1.0 / unbias_square) as f32,
            eps: step.eps as f32,
            rate: (step.lr / unbias_mean) as f32,
        }
    }
}

/// Updates some elements.
struct Update<'a> {
    /// Overwritten, as the two running means.
    weights: &'a mut [f32],
    means: &'a mut [f32],
    squares: &'a mut [f32],
    gradients: &'a [f32],
    coefficients: Coefficients,
}

impl Kernel for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let coefficients = self.coefficients;
        let state = self.weights.iter_mut().zip(self.means).zip(self.squares);
        for (((weight, mean), square), gradient) in state.zip(self.gradients) {
            // g, with coupled weight decay or `+ 0 w`.
            let gradient = gradient * coefficients.scale + *weight * coefficients.coupled;
            *mean = *mean * coefficients.keep_mean + gradient * coefficients.add_mean;
            *square =
                *square * coefficients.keep_square + gradient * gradient * coefficients.add_square;
            // sqrt(v / (1 - β₂ᵗ)) + ε, with the root taken before the division.
            let root = square.sqrt() * coefficients.unbias_square + coefficients.eps;
            *weight = *weight * coefficients.keep_weight - *mean / root * coefficients.rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::super::{adam, plain};
    use super::*;
    use crate::flex::tests::{assert_near, elements, random};

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        const LEN: usize = 40_001;
        let device = Device::flex();
        let scale = Tensor::<1>::from_data([0.5f32], &device);
        for decay in [
            WeightDecay::None,
            WeightDecay::Coupled(0.1),
            WeightDecay::Decoupled(0.1),
        ] {
            let start = AdamState {
                weight: random([LEN], 1.0),
                mean: random([LEN], 0.1),
                square: random([LEN], 0.1).abs(),
            };
            let mut ours = start.clone();
            let mut theirs = start;
            for number in 1..=3 {
                let step = AdamStep {
                    betas: [0.9, 0.98],
                    eps: 1e-9,
                    lr: 1e-2,
                    step: number,
                    decay,
                };
                let gradient = random([LEN], 1.0);
                ours = adam(ours, gradient.clone(), &scale, step);
                theirs = plain(theirs, gradient, &scale, step);
            }
            assert_near(&elements(ours.weight), &elements(theirs.weight), 2e-6);
            assert_near(&elements(ours.mean), &elements(theirs.mean), 2e-6);
            assert_near(&elements(ours.square), &elements(theirs.square), 2e-6);
        }
    }
}
