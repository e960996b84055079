//! The number format of the factors of a product.

use burn::tensor::{FloatDType, Tensor};

/// What the factors of a training's matrix products are rounded to. Kernels add and return f32 in either case; Burn's operations may
/// round the result of a product of bf16 to bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factors {
    /// Nothing is rounded.
    F32,
    /// To the 8 significant bits of bf16, the nearest, as they are read. Numbers below 1.2e-38 may count as 0.
    Bf16,
}

/// Whether this CPU has instructions for products of bf16 (AMX-BF16, or AVX512-BF16). Others imitate them, more slowly than f32.
///
/// Where there is AMX, the first call asks Linux to let the process use it.
#[must_use]
pub fn has_bf16_products() -> bool {
    #[cfg(feature = "flex")]
    return crate::flex::matrix::has_bf16_products();
    #[cfg(not(feature = "flex"))]
    false
}

/// Whether kernels train with this tensor: it is on flex, with autodiff. Linear maps and the loss then round factors as they are asked
/// to, and attention and recurrent layers, where they are one operation, compute in f32.
#[must_use]
pub fn has_training_kernels<const D: usize>(tensor: &Tensor<D>) -> bool {
    #[cfg(feature = "flex")]
    return crate::flex::mode(tensor) == Some(crate::flex::Mode::Training);
    #[cfg(not(feature = "flex"))]
    {
        let _ = tensor;
        false
    }
}

impl Factors {
    /// A factor as Burn's operations are given it.
    pub(crate) fn rounded<const D: usize>(self, factor: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => factor,
            Self::Bf16 => factor.cast(FloatDType::BF16),
        }
    }

    /// A product of rounded factors as f32.
    pub(crate) fn widened<const D: usize>(self, product: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => product,
            Self::Bf16 => product.cast(FloatDType::F32),
        }
    }

    /// The product of the last two axes, in terms of Burn's operations.
    pub fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        self.widened(self.rounded(left).matmul(self.rounded(right)))
    }
}
