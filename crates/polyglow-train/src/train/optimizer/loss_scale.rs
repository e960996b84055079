//! The factor of the loss while gradients are computed in f16, so that small ones do not become 0
//! (Micikevicius et al., 2018, section 3.2).

use burn::tensor::{Bool, Device, Tensor, TensorData};

/// The scale before the first step. Here a loss is a sum over tokens, and so thousands of times the
/// mean that other programs scale by 65,536 at first.
const INITIAL: f64 = 1.0;
/// The number of steps in a row without a skipped one after which the scale is doubled.
const GROWTH_INTERVAL: f64 = 1000.0;
/// The largest scale; the smallest is its inverse.
const MAX: f64 = (1 << 24) as f64;
/// The name in checkpoints.
const NAME: &str = "loss_scale";

/// A scale that is halved by each skipped step, and doubled by each thousandth step in a row that
/// was not. It stays on the device, where alone it is known whether a step is skipped.
#[derive(Clone, Debug)]
pub(super) struct LossScale {
    /// `[1]`.
    pub(super) scale: Tensor<1>,
    /// Steps since it changed, `[1]`.
    steps: Tensor<1>,
}

impl LossScale {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            scale: Tensor::full([1], INITIAL, device),
            steps: Tensor::zeros([1], device),
        }
    }

    /// Returns the scale of the next step; `skipped`, `[1]`, says whether this one was skipped.
    pub(super) fn after(self, skipped: &Tensor<1, Bool>) -> Self {
        let steps = (self.steps + 1.0).mask_fill(skipped.clone(), 0.0);
        let is_patient = steps.clone().greater_equal_elem(GROWTH_INTERVAL);
        let doubled = self.scale.clone() * 2.0;
        let halved = self.scale.clone() * 0.5;
        let scale = self
            .scale
            .mask_where(is_patient.clone(), doubled)
            .mask_where(skipped.clone(), halved)
            .clamp(1.0 / MAX, MAX);
        Self {
            scale,
            steps: steps.mask_fill(is_patient, 0.0),
        }
    }

    /// Returns the scale and its steps as one tensor, by its name in checkpoints.
    pub(super) fn state(&self) -> Vec<(String, TensorData)> {
        let both = Tensor::cat(vec![self.scale.clone(), self.steps.clone()], 0);
        vec![(NAME.to_owned(), both.into_data())]
    }

    /// Restores what [`Self::state`] has returned: `state` is called with the name and the shape.
    pub(super) fn restore<E>(
        device: &Device,
        mut state: impl FnMut(&str, &[usize]) -> Result<TensorData, E>,
    ) -> Result<Self, E> {
        let both = Tensor::<1>::from_data(state(NAME, &[2])?, device);
        Ok(Self {
            scale: both.clone().narrow(0, 0, 1),
            steps: both.narrow(0, 1, 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(scale: &LossScale) -> Vec<f32> {
        scale.state()[0].1.iter::<f32>().collect()
    }

    #[test]
    fn it_is_halved_by_skipped_steps_and_doubled_by_many_others() {
        let device = Device::flex();
        let skipped = |is: bool| Tensor::<1, Bool>::from_data([is], &device);
        let mut scale = LossScale::new(&device);
        scale = scale.after(&skipped(false)).after(&skipped(true));
        assert_eq!(numbers(&scale), [0.5, 0.0]);
        for _ in 0..999 {
            scale = scale.after(&skipped(false));
        }
        assert_eq!(numbers(&scale), [0.5, 999.0]);
        let restored = LossScale::restore(&device, |_, _| Ok::<_, ()>(scale.state().remove(0).1))
            .expect("it is there");
        assert_eq!(numbers(&restored.after(&skipped(false))), [1.0, 0.0]);
        for _ in 0..100 {
            scale = scale.after(&skipped(true));
        }
        assert_eq!(numbers(&scale), [1.0 / (1 << 24) as f32, 0.0]);
    }
}
