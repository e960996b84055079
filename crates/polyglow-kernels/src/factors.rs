//! The number format of the factors of a product.

use burn::tensor::{FloatDType, Tensor};

/// What the factors of a training's matrix products are rounded to. Sums and results are f32 in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Factors {
    /// Nothing is rounded.
    #[default]
    F32,
    /// To the 8 significant bits of bf16, the nearest, as they are read. Numbers below 1.2e-38 may count as 0.
    Bf16,
}

/// Whether this CPU has instructions for products of bf16 (AMX-BF16, or AVX512-BF16). Others imitate them, more slowly than f32.
#[must_use]
pub fn has_bf16_products() -> bool {
    #[cfg(feature = "flex")]
    return crate::flex::matrix::has_bf16_products();
    #[cfg(not(feature = "flex"))]
    false
}

/// Whether products with this tensor are kernels of a training. Then those of linear maps are rounded as they are asked to be, and
/// those inside of other kernels (attention, recurrent layers), which are small, are f32.
#[must_use]
pub fn rounds_in_kernels<const D: usize>(tensor: &Tensor<D>) -> bool {
    #[cfg(feature = "flex")]
    return crate::flex::mode(tensor) == Some(crate::flex::Mode::Training);
    #[cfg(not(feature = "flex"))]
    {
        let _ = tensor;
        false
    }
}

impl Factors {
    /// The product of the last two axes, in terms of Burn's operations.
    pub fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => left.matmul(right),
            Self::Bf16 => left.cast(FloatDType::BF16).matmul(right.cast(FloatDType::BF16)).cast(FloatDType::F32),
        }
    }
}
