//! The number format of the factors of a product.

#[cfg(feature = "gpu")]
mod gpu;
mod once;

use burn::tensor::{DType, FloatDType, Tensor};

#[cfg(feature = "gpu")]
pub(crate) use self::gpu::{known_or_rounded, rounded};
pub use self::once::{RoundedOnce, round_once};

/// What the factors of a training's matrix products are rounded to. Products are added in f32. On
/// flex they are returned so; on GPUs they are rounded, too, and stay in this format until
/// something needs f32 ([`widened`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factors {
    /// Nothing is rounded.
    F32,
    /// To the 8 significant bits of bf16, the nearest, as they are read. Numbers below 1.2e-38 may
    /// count as 0.
    Bf16,
    /// To the 11 significant bits of f16, whose largest number is 65,504 and whose smallest 6e-8.
    /// On flex results are rounded, too, as they are on GPUs: it imitates these, and is slower than
    /// with f32.
    F16,
}

/// Whether this CPU has instructions for products of bf16 (AMX-BF16, or AVX512-BF16). Others
/// imitate them, more slowly than f32.
///
/// Where there is AMX, the first call asks Linux to let the process use it.
#[must_use]
pub fn has_bf16_products() -> bool {
    #[cfg(feature = "flex")]
    return crate::flex::matrix::has_bf16_products();
    #[cfg(not(feature = "flex"))]
    false
}

/// Whether kernels train with this tensor: it is on flex, with autodiff. Linear maps and the loss
/// then round factors as they are asked to, and attention and recurrent layers, where they are one
/// operation, compute in f32.
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
    fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }

    /// A tensor in this format.
    #[must_use]
    pub fn rounded<const D: usize>(self, factor: Tensor<D>) -> Tensor<D> {
        cast(factor, self.dtype())
    }

    /// The product of the last two axes as f32, in terms of Burn's operations.
    pub fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        widened(self.rounded(left).matmul(self.rounded(right)))
    }
}

/// A tensor as f32, which what kernels leave may not be.
#[must_use]
pub fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    cast(tensor, FloatDType::F32)
}

/// A tensor in another format, if it is not in it.
pub(crate) fn cast<const D: usize>(tensor: Tensor<D>, dtype: FloatDType) -> Tensor<D> {
    if tensor.dtype() == DType::from(dtype) {
        tensor
    } else {
        tensor.cast(dtype)
    }
}
