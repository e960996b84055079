//! The matrices of a model, trained or quantized: most of its memory and of its work.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use polyglow_kernels::Int8Matrix;

/// A matrix, trained or quantized.
#[derive(Module, Debug)]
pub enum Weight {
    /// A parameter in f32.
    Float(Param<Tensor<2>>),
    /// A matrix in 8 bits, for search; it is no parameter.
    Int8(Int8Weight),
}

/// A matrix in 8 bits.
#[derive(Module, Debug)]
pub struct Int8Weight {
    #[module(skip)]
    matrix: Int8Matrix,
}

impl Weight {
    /// Its values, if they are f32.
    pub(crate) fn float(&self) -> Option<Tensor<2>> {
        match self {
            Self::Float(weight) => Some(weight.val()),
            Self::Int8(_) => None,
        }
    }
}

impl Int8Weight {
    /// The quantized values.
    pub fn matrix(&self) -> &Int8Matrix {
        &self.matrix
    }
}

impl From<Int8Matrix> for Weight {
    fn from(matrix: Int8Matrix) -> Self {
        Self::Int8(Int8Weight { matrix })
    }
}
