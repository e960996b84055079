//! The number format of the factors of a matrix product: f32, bf16 or f16, with sums in f32.

#[cfg(feature = "gpu")]
mod gpu;
mod once;

use burn::tensor::{DType, FloatDType, Tensor};

#[cfg(feature = "gpu")]
pub(crate) use self::gpu::{kept_or_rounded, rounded};
pub use self::once::{RoundedOnce, round_once};

/// The format that the factors of a training's matrix products are rounded to. Products are added
/// in f32. On flex the result is f32, too; on GPUs it is rounded and stays in this format until
/// something needs f32 ([`widened`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factors {
    /// Nothing is rounded.
    F32,
    /// bf16: 8 significant bits, to the nearest, rounded when they are read. Values below 1.2e-38
    /// may count as 0: instructions for bf16 treat subnormal values so.
    Bf16,
    /// f16: 11 significant bits, with values up to 65,504 and down to 6e-8. On flex this imitates
    /// GPUs: results are rounded, too, and it is slower than f32.
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

/// Whether kernels for the CPU train with this tensor: it is on flex, with autodiff. Linear maps
/// and the loss then round their factors, and attention and recurrent layers, where they are one
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
    /// The format as Burn names it.
    pub(crate) fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }

    /// Returns the tensor in this format.
    #[must_use]
    pub fn rounded<const D: usize>(self, factor: Tensor<D>) -> Tensor<D> {
        cast(factor, self.dtype())
    }

    /// Returns the matrix product over the last two axes as f32, by Burn's operations.
    pub fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        widened(self.rounded(left).matmul(self.rounded(right)))
    }
}

/// Returns the tensor as f32; the output of a kernel may have another format.
#[must_use]
pub fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    cast(tensor, FloatDType::F32)
}

/// Returns the tensor in this format, converted only if it has another one.
pub(crate) fn cast<const D: usize>(tensor: Tensor<D>, dtype: FloatDType) -> Tensor<D> {
    if tensor.dtype() == DType::from(dtype) {
        tensor
    } else {
        tensor.cast(dtype)
    }
}
