//! The number format of matrix products: f32, or bf16 or f16 over f32 weights (Micikevicius et al.,
//! 2018; Kalamkar et al., 2019).
//!
//! Products that no fused kernel computes go through here.

use burn::tensor::{Device, FloatDType, Tensor};
use polyglow_kernels::{Factors, Layout, Packed, has_bf16_products, has_training_kernels, widened};
use serde::{Deserialize, Serialize};

use crate::host::computes_on_host;

/// The number format of the factors of matrix products in training.
///
/// With bf16 both factors of each product, forward and backward, are rounded to 8 significant bits;
/// on GPUs the result is rounded, too, and stays in bf16 until the next product.
/// On flex the kernels of linear maps and of the loss round factors; attention, and recurrent
/// layers that run as one operation, stay f32. Weights, sums of gradients, residual sums, softmax,
/// norms, loss and optimizer are f32. The range is that of f32, so a loss needs no scale; with f16
/// it does. Without autodiff (search, validation) products are f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 24 significant bits; some GPUs round the factors to the 11 of tf32.
    #[default]
    F32,
    /// 8 significant bits.
    Bf16,
    /// 11 significant bits, and a range up to 65,504, so that the loss is scaled while gradients
    /// are computed.
    F16,
}

impl Precision {
    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Whether a device computes in it. Flex computes in bf16 if the CPU has instructions for it,
    /// and in f16 always, by emulation.
    pub fn is_supported(self, device: &Device) -> bool {
        match self {
            Self::F32 => true,
            Self::Bf16 => {
                device.supports_dtype(FloatDType::BF16)
                    && (!computes_on_host(device) || has_bf16_products())
            }
            Self::F16 => device.supports_dtype(FloatDType::F16),
        }
    }

    /// The format that the factors of a linear map of this tensor are rounded to.
    pub fn factors<const D: usize>(self, input: &Tensor<D>) -> Factors {
        if input.is_autodiff() {
            self.in_training()
        } else {
            Factors::F32
        }
    }

    /// The format that the factors of linear maps are rounded to with autodiff.
    pub fn in_training(self) -> Factors {
        match self {
            Self::F32 => Factors::F32,
            Self::Bf16 => Factors::Bf16,
            Self::F16 => Factors::F16,
        }
    }

    /// The matrix product of the last two axes, for products that are not linear maps. It is f32 on
    /// devices with training kernels, since their attention kernels do not round either.
    pub fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        let factors = if has_training_kernels(&left) {
            Factors::F32
        } else {
            self.factors(&left)
        };
        factors.product(left, right)
    }

    /// Computes `x W + b` for every row, or `x W` without a bias. The output is in f32, or in the
    /// format of its factors, which kernels read. `packed` caches the packed weight, which makes
    /// the products of a search faster.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`; output:
    ///   `[rows, d_out]`
    pub fn linear(
        self,
        input: Tensor<2>,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
        packed: &Packed,
    ) -> Tensor<2> {
        let factors = self.factors(&input);
        polyglow_kernels::repeated_linear(input, weight, bias, Layout::InOut, factors, packed)
    }

    /// Computes `x Wᵀ` for every row in f32, with `packed` as in [`Self::linear`].
    ///
    /// # Shapes
    /// - `input`: `[rows, d_in]`; `weight`: `[d_out, d_in]`; output: `[rows, d_out]`
    pub fn linear_transposed(
        self,
        input: Tensor<2>,
        weight: Tensor<2>,
        packed: &Packed,
    ) -> Tensor<2> {
        let factors = self.factors(&input);
        widened(polyglow_kernels::repeated_linear(
            input,
            weight,
            None,
            Layout::OutIn,
            factors,
            packed,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1 + 2^-8` lies halfway between two neighbors in bf16, and becomes the even one.
    const HALFWAY: f32 = 1.0 + 1.0 / 256.0;

    fn one(value: f32, device: &Device) -> Tensor<2> {
        Tensor::from_data([[value]], device)
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    #[test]
    fn both_factors_and_the_gradient_are_rounded_with_autodiff() {
        let device = crate::test_device().autodiff();
        let left = one(HALFWAY, &device).require_grad();
        let right = one(3.0 * HALFWAY, &device).require_grad();
        let product = Precision::Bf16.linear(left.clone(), right.clone(), None, &Packed::default());
        // 3 + 3 * 2^-8 is nearest to 3 + 2^-6, as neighbors are 2^-6 apart from 2 to 4.
        assert_eq!(values(product.clone()), [3.015_625]);
        let grads = (product * one(HALFWAY, &device)).sum().backward();
        let gradient = |tensor: Tensor<2>| values(tensor.grad(&grads).expect("it takes part"));
        assert_eq!(
            (gradient(left), gradient(right)),
            (vec![3.015_625], vec![1.0])
        );
    }

    #[test]
    fn nothing_is_rounded_without_autodiff() {
        let device = crate::test_device();
        assert_eq!(
            values(Precision::Bf16.linear(
                one(HALFWAY, &device),
                one(1.0, &device),
                None,
                &Packed::default()
            )),
            [HALFWAY]
        );
    }

    #[test]
    fn sums_with_a_bias_are_not_rounded() {
        let device = crate::test_device().autodiff();
        let bias = Tensor::<1>::from_data([1.0 / 1024.0f32], &device);
        let sum = Precision::Bf16.linear(
            one(1.0, &device),
            one(1.0, &device),
            Some(bias),
            &Packed::default(),
        );
        assert_eq!(values(sum), [1.0 + 1.0 / 1024.0]);
    }
}
