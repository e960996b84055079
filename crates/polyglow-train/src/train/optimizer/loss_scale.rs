//! What the loss is multiplied by while gradients are computed in f16, so that small ones do not
//! become 0 (Micikevicius et al., 2018, section 3.2).

use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Before the first step. A loss is a sum over tokens, and so thousands of times the mean that
/// others begin to scale at 65,536.
const FIRST: f64 = 1.0;
/// After so many steps in a row that were not skipped the scale is doubled.
const PATIENCE: f64 = 1000.0;
/// The scale stays between one over this and this.
const MOST: f64 = (1 << 24) as f64;
/// What checkpoints call it.
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
            scale: Tensor::full([1], FIRST, device),
            steps: Tensor::zeros([1], device),
        }
    }

    /// The scale of the next step, from whether this one was skipped, `[1]`.
    pub(super) fn after(self, skipped: &Tensor<1, Bool>) -> Self {
        let steps = (self.steps + 1.0).mask_fill(skipped.clone(), 0.0);
        let doubles = steps.clone().greater_equal_elem(PATIENCE);
        let scale = self
            .scale
            .clone()
            .mask_where(doubles.clone(), self.scale.clone() * 2.0);
        let scale = scale
            .mask_where(skipped.clone(), self.scale * 0.5)
            .clamp(1.0 / MOST, MOST);
        Self {
            scale,
            steps: steps.mask_fill(doubles, 0.0),
        }
    }

    /// By the names that checkpoints have for it.
    pub(super) fn state(&self) -> Vec<(String, TensorData)> {
        vec![(
            NAME.to_owned(),
            Tensor::cat(vec![self.scale.clone(), self.steps.clone()], 0).into_data(),
        )]
    }

    /// Takes back what [`Self::state`] gave.
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
