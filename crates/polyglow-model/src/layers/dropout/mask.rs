//! Scaled masks as functions of (key, index), made on the host. GPUs have a kernel of their own
//! ([`polyglow_kernels::dropout`]).

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_kernels::Dropped;
use rayon::prelude::*;

use crate::random::Random;

/// Elements of a mask that one thread makes at a time. Each chunk has a generator of its own, so
/// this size is part of the definition of the mask.
const CHUNK: usize = 8192;

/// Makes the mask of a CPU backend on all cores: `1 / keep` with probability `keep`, else 0.
pub(super) fn on_host<const D: usize>(
    shape: [usize; D],
    dropped: Dropped,
    device: &Device,
) -> Tensor<D> {
    let Dropped { keep, key } = dropped;
    let mut mask = vec![0.0f32; shape.iter().product()];
    let scale = (1.0 / keep) as f32;
    let threshold = (keep * f64::from(u32::MAX)) as u32;
    mask.par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, values)| {
            let mut random = Random::new(&[key, chunk as u64]);
            // 64 random bits decide about two elements.
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
    use super::*;

    const SHAPE: [usize; 2] = [200, 1001];

    /// The CPU backends of this build.
    fn devices() -> Vec<Device> {
        Vec::from([
            crate::test_device(),
            #[cfg(feature = "ndarray")]
            {
                #[expect(deprecated, reason = "offered as long as Burn has it")]
                let ndarray = Device::ndarray();
                ndarray
            },
        ])
    }

    fn values(keep: f64, key: u64) -> Vec<f32> {
        values_on(&crate::test_device(), keep, key)
    }

    fn values_on(device: &Device, keep: f64, key: u64) -> Vec<f32> {
        on_host(SHAPE, Dropped { keep, key }, device)
            .into_data()
            .iter::<f32>()
            .collect()
    }

    #[test]
    fn the_configured_share_is_dropped_and_the_mean_is_kept() {
        for key in [0, 1, u64::MAX / 3] {
            let values = values(0.7, key);
            let share = |count: usize| count as f64 / values.len() as f64;
            let dropped = share(values.iter().filter(|value| **value == 0.0).count());
            // Four standard deviations of a binomial share.
            assert!(
                (dropped - 0.3).abs() < 4.0 * (0.21f64 / values.len() as f64).sqrt(),
                "{key}: {dropped}"
            );
            assert!(
                values
                    .iter()
                    .all(|value| *value == 0.0 || (*value - 1.0 / 0.7).abs() < 1e-6)
            );
            // Elements are independent of their neighbors: both of a pair are dropped as often as
            // the product of their probabilities.
            for distance in [1, 2, 16, 64, 512, 1001, 8192, 65536] {
                let pairs = values.iter().zip(&values[distance..]);
                let num_pairs = values.len() - distance;
                let both = pairs
                    .filter(|(left, right)| **left == 0.0 && **right == 0.0)
                    .count();
                let both = both as f64 / num_pairs as f64;
                assert!((both - 0.09).abs() < 0.004, "{key}, {distance}: {both}");
            }
        }
    }

    #[test]
    fn keys_give_masks_that_are_independent_of_each_other() {
        let first = values(0.5, 5);
        for key in [4, 6, 7, 5 + (1 << 32), 5 << 16] {
            let other = values(0.5, key);
            let equal = first
                .iter()
                .zip(&other)
                .filter(|(left, right)| (**left > 0.0) == (**right > 0.0))
                .count();
            assert!(
                (equal as f64 / first.len() as f64 - 0.5).abs() < 0.006,
                "{key}: {equal}"
            );
        }
    }

    #[test]
    fn backends_agree() {
        for device in devices() {
            assert!(values_on(&device, 0.9, 3) == values(0.9, 3));
        }
    }
}
