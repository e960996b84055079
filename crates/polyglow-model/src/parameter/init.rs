//! Initial weights, drawn on the host from the seed and the index of the parameter, so that they
//! are the same on every device.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};

use crate::precision::Precision;
use crate::random::Random;

/// Creates parameters in order, each with an id and a random sequence of its own.
///
/// Values are a function of (seed, index of the parameter, index inside it), so neither the
/// device nor the order in which weights are first used can change them.
#[derive(Debug)]
pub struct ParamInit {
    device: Device,
    precision: Precision,
    /// `None` if all values are zeros.
    seed: Option<u64>,
    next_id: u64,
}

impl ParamInit {
    /// Starts at parameter 0 of a model that will live on `device`.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self {
            seed: Some(seed),
            ..Self::zeros(device)
        }
    }

    /// Starts at parameter 0 of a model whose values will be loaded: until then they are zeros,
    /// which need no random numbers.
    pub fn zeros(device: &Device) -> Self {
        Self {
            device: device.clone(),
            precision: Precision::F32,
            seed: None,
            next_id: 0,
        }
    }

    /// Sets the precision in which layers compute their products.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The precision of matrix products in the layers.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The device that parameters are made on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Draws uniformly from `±sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio, 2010, equation 16).
    ///
    /// `fan_out` is separate from the shape, so that several fused projections are initialized as
    /// if each were alone.
    pub fn xavier(&mut self, shape: [usize; 2], fan_out: usize) -> Param<Tensor<2>> {
        let bound = xavier_bound(shape[0], fan_out);
        self.draw(shape, |_, random| (2.0 * random.uniform() - 1.0) * bound)
    }

    /// Draws projections from `d_in` to each of `widths`, side by side in one matrix, each as
    /// [`Self::xavier`] would alone.
    ///
    /// # Shapes
    /// - output: `[d_in, sum of widths]`
    pub fn xavier_blocks(&mut self, d_in: usize, widths: &[usize]) -> Param<Tensor<2>> {
        let bounds: Vec<f64> = widths
            .iter()
            .flat_map(|&width| std::iter::repeat_n(xavier_bound(d_in, width), width))
            .collect();
        let d_out = bounds.len();
        self.draw([d_in, d_out], |index, random| {
            (2.0 * random.uniform() - 1.0) * bounds[index % d_out]
        })
    }

    /// Draws from a normal distribution with mean 0 and this standard deviation.
    pub fn normal(&mut self, shape: [usize; 2], std: f64) -> Param<Tensor<2>> {
        self.draw(shape, |_, random| random.normal() * std)
    }

    /// Fills a vector with one value, for biases and norms.
    pub fn constant(&mut self, len: usize, value: f64) -> Param<Tensor<1>> {
        self.draw([len], |_, _| value)
    }

    /// Creates the next parameter, whose elements are drawn by `value` from their index.
    fn draw<const D: usize>(
        &mut self,
        shape: [usize; D],
        value: impl Fn(usize, &mut Random) -> f64,
    ) -> Param<Tensor<D>> {
        let count = shape.iter().product();
        let values: Vec<f32> = match self.seed {
            Some(seed) => {
                let mut random = Random::new(&[seed, self.next_id]);
                (0..count)
                    .map(|index| value(index, &mut random) as f32)
                    .collect()
            }
            None => vec![0.0; count],
        };
        let tensor = Tensor::from_data(TensorData::new(values, shape), &self.device);
        let mut param = Param::from_tensor(tensor);
        param.id = ParamId::from(self.next_id);
        self.next_id += 1;
        param
    }
}

/// The largest absolute value of a Xavier-uniform weight.
fn xavier_bound(fan_in: usize, fan_out: usize) -> f64 {
    (6.0 / (fan_in + fan_out) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_bounds_that_they_would_have_alone() {
        let device = crate::test_device();
        let draw = |widths: &[usize]| {
            let weight = ParamInit::new(7, &device).xavier_blocks(64, widths);
            weight.val().into_data().try_to_vec::<f32>().unwrap()
        };
        let equal = ParamInit::new(7, &device).xavier([64, 192], 64);
        let equal = equal.val().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(draw(&[64, 64, 64]), equal);

        let weight = draw(&[96, 8]);
        for (columns, width) in [(0..96, 96.0f32), (96..104, 8.0)] {
            let bound = (6.0 / (64.0 + width)).sqrt();
            let largest = weight
                .chunks_exact(104)
                .flat_map(|row| &row[columns.clone()])
                .fold(0.0f32, |largest, value| largest.max(value.abs()));
            assert!(largest <= bound && largest > 0.95 * bound, "{largest}");
        }
    }

    #[test]
    fn draws_have_the_promised_spread_and_depend_on_seed_and_position() {
        let device = crate::test_device();
        let mut init = ParamInit::new(7, &device);
        let first = init.xavier([64, 192], 64);
        let second = init.normal([200, 50], 0.5);
        let values = first.val().into_data().try_to_vec::<f32>().unwrap();
        let bound = (6.0f32 / 128.0).sqrt();
        assert!(values.iter().all(|v| v.abs() <= bound));
        let variance = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
        assert!(
            (variance / (bound * bound / 3.0) - 1.0).abs() < 0.05,
            "{variance}"
        );
        let normals = second.val().into_data().try_to_vec::<f32>().unwrap();
        let deviation = (normals.iter().map(|v| v * v).sum::<f32>() / normals.len() as f32).sqrt();
        assert!((deviation - 0.5).abs() < 0.02, "{deviation}");

        let again = ParamInit::new(7, &device).xavier([64, 192], 64);
        assert_eq!(again.val().into_data().try_to_vec::<f32>().unwrap(), values);
        let other = ParamInit::new(8, &device).xavier([64, 192], 64);
        assert_ne!(other.val().into_data().try_to_vec::<f32>().unwrap(), values);
    }
}
