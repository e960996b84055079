//! Dropout (Srivastava et al., 2014), active on devices that differentiate and nowhere else.

use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use polyglow_kernels::{Dropped, add_dropped};
use rayon::prelude::*;

use crate::host::computes_on_host;
use crate::random::Random;

/// Numbers of a mask that one thread makes at a time.
const CHUNK: usize = 8192;

/// Zeroes each number with probability `prob` and scales the others by `1 / (1 - prob)`.
///
/// It acts only on tensors of an autodiff device, so a model moved to a plain device evaluates without it. Masks come
/// from the device's generator; the training step seeds that from (seed, step, micro-batch).
#[derive(Module, Debug)]
pub struct Dropout {
    prob: f64,
}

impl Dropout {
    /// Drops with a probability below 1.
    pub fn new(prob: f64) -> Self {
        Self { prob }
    }

    /// # Shapes
    /// - `input`: any; output: as `input`
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        if self.prob == 0.0 || !input.is_autodiff() {
            return input;
        }
        // The scaled mask is made outside the graph, so the backward pass holds one factor and nothing else.
        let device = input.device().inner();
        let mask = if computes_on_host(&device) {
            mask_on_host(input.dims(), 1.0 - self.prob, &device)
        } else {
            mask_on_device(input.dims(), 1.0 - self.prob, &device)
        };
        input * mask
    }

    /// `residual` and what is left of `input`.
    ///
    /// # Shapes
    /// - both: the same; output: as they are
    pub fn add(&self, residual: Tensor<3>, input: Tensor<3>) -> Tensor<3> {
        let fused = self.draw(&input).and_then(|dropped| add_dropped(&residual, &input, dropped));
        fused.unwrap_or_else(|| residual + self.forward(input))
    }

    /// What is dropped of this tensor or of what follows from it, for an operation that makes its mask itself; none where
    /// nothing is dropped, or on a GPU, where there are no such operations.
    pub fn draw<const D: usize>(&self, input: &Tensor<D>) -> Option<Dropped> {
        let active = self.prob > 0.0 && input.is_autodiff() && computes_on_host(&input.device());
        active.then(|| Dropped { keep: 1.0 - self.prob, key: draw_key(&input.device().inner()) })
    }
}

/// A key that follows from the device's generator.
fn draw_key(device: &Device) -> u64 {
    let drawn = Tensor::<1>::random([3], Distribution::Uniform(0.0, 1.0), device).into_data();
    let key: Vec<u64> = drawn.iter::<f32>().map(|draw| u64::from(draw.to_bits())).collect();
    Random::new(&key).bits()
}

fn mask_on_device<const D: usize>(shape: [usize; D], keep: f64, device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Bernoulli(keep), device) * (1.0 / keep)
}

/// A CPU backend draws its numbers one after the other from one generator under a lock; so that generator gives only a
/// key here, and the mask follows from it on all cores.
fn mask_on_host<const D: usize>(shape: [usize; D], keep: f64, device: &Device) -> Tensor<D> {
    let key = draw_key(device);
    let mut mask = vec![0.0f32; shape.iter().product()];
    let scale = (1.0 / keep) as f32;
    let threshold = (keep * f64::from(u32::MAX)) as u32;
    mask.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        let mut random = Random::new(&[key, chunk as u64]);
        for pair in values.chunks_mut(2) {
            let bits = random.bits();
            for (value, bits) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                *value = if bits <= threshold { scale } else { 0.0 };
            }
        }
    });
    Tensor::from_data(TensorData::new(mask, shape), device)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Tests run beside each other, and a device has one generator.
    static GENERATOR: Mutex<()> = Mutex::new(());

    fn drop_ones(prob: f64, seed: u64) -> Vec<f32> {
        let _alone = GENERATOR.lock();
        let device = crate::test_device().autodiff();
        device.seed(seed);
        let ones = Tensor::<2>::ones([100, 1001], &device);
        Dropout::new(prob).forward(ones).inner().into_data().iter::<f32>().collect()
    }

    #[test]
    fn the_configured_share_is_dropped_and_the_mean_is_kept() {
        let values = drop_ones(0.3, 1);
        let dropped = values.iter().filter(|value| **value == 0.0).count() as f64 / values.len() as f64;
        // Four standard deviations of a binomial share.
        assert!((dropped - 0.3).abs() < 4.0 * (0.21f64 / values.len() as f64).sqrt(), "{dropped}");
        assert!(values.iter().all(|value| *value == 0.0 || (*value - 1.0 / 0.7).abs() < 1e-6));
        // Neighbors are independent: both of a pair are dropped as often as the shares' product says.
        let both = values.windows(2).filter(|pair| pair == &[0.0, 0.0]).count() as f64 / values.len() as f64;
        assert!((both - 0.09).abs() < 0.005, "{both}");
    }

    #[test]
    fn the_seed_decides_the_mask() {
        assert_eq!(drop_ones(0.5, 7), drop_ones(0.5, 7));
        assert_ne!(drop_ones(0.5, 7), drop_ones(0.5, 8));
    }

    #[test]
    fn nothing_is_dropped_where_nothing_is_learned() {
        let device = crate::test_device();
        let ones = Tensor::<2>::ones([4, 4], &device);
        let values: Vec<f32> = Dropout::new(0.9).forward(ones).into_data().iter::<f32>().collect();
        assert_eq!(values, [1.0; 16]);
    }
}
