//! The book about attention as documentation, so that its code blocks run as tests.
//!
//! Every chapter is a module. What the chapters share is below: a way to write a matrix, a way to
//! say what is in one, and a model to search with.

#![expect(
    clippy::doc_markdown,
    reason = "chapters are prose, with formulas and names like d_model and ViT"
)]

pub mod napkin;
#[cfg(test)]
mod tests;

use burn::tensor::{Device, Tensor, TensorData};
use polyglow_model::{Vocabulary, random::Random};

#[doc = include_str!("../src/introduction.md")]
pub mod introduction {}
#[doc = include_str!("../src/tokens.md")]
pub mod tokens {}
#[doc = include_str!("../src/similarity.md")]
pub mod similarity {}
#[doc = include_str!("../src/attention.md")]
pub mod attention {}
#[doc = include_str!("../src/learned.md")]
pub mod learned {}
#[doc = include_str!("../src/scaling.md")]
pub mod scaling {}
#[doc = include_str!("../src/heads.md")]
pub mod heads {}
#[doc = include_str!("../src/masks.md")]
pub mod masks {}
#[doc = include_str!("../src/positions.md")]
pub mod positions {}
#[doc = include_str!("../src/encoder-decoder.md")]
pub mod encoder_decoder {}
#[doc = include_str!("../src/teacher-forcing.md")]
pub mod teacher_forcing {}
#[doc = include_str!("../src/loss.md")]
pub mod loss {}
#[doc = include_str!("../src/search.md")]
pub mod search {}
#[doc = include_str!("../src/live.md")]
pub mod live {}
#[doc = include_str!("../src/recurrent.md")]
pub mod recurrent {}
#[doc = include_str!("../src/family.md")]
pub mod family {}
#[doc = include_str!("../src/worked.md")]
pub mod worked {}
#[doc = include_str!("../src/your-own.md")]
pub mod your_own {}
#[doc = include_str!("../src/change-it.md")]
pub mod change_it {}

/// Half a unit of the third digit after the point, and the rounding of f32.
const HALF_A_DIGIT: f64 = 0.0005 + 1e-6;

/// A matrix on the CPU, row by row.
///
/// # Shapes
/// - output: `[rows, columns]`
pub fn matrix<const ROWS: usize, const COLUMNS: usize>(rows: [[f64; COLUMNS]; ROWS]) -> Tensor<2> {
    Tensor::from_data(rows, &Device::flex())
}

/// Numbers with mean 0 and variance 1, a function of the seed.
pub fn noise(seed: u64, shape: [usize; 3], device: &Device) -> Tensor<3> {
    let mut random = Random::new(&[seed]);
    let numbers: Vec<f64> = (0..shape.iter().product())
        .map(|_| random.normal())
        .collect();
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

/// A vocabulary of so many tokens that both sides share, padding first, for sentences of up to 64
/// tokens.
pub fn vocabulary(size: usize) -> Vocabulary {
    Vocabulary {
        src_size: size,
        tgt_size: size,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 64,
        image: None,
    }
}

/// Says which numbers a tensor holds, to three digits after the point.
///
/// # Panics
/// The shape is another, or a number is.
pub fn shows<const D: usize>(tensor: &Tensor<D>, expected: impl Into<TensorData>) {
    let (found, expected) = (tensor.clone().into_data(), expected.into());
    assert_eq!(
        found.shape(),
        expected.shape(),
        "the shape is another: {found}"
    );
    let mut pairs = found.iter::<f64>().zip(expected.iter::<f64>());
    assert!(
        pairs.all(|(found, expected)| (found - expected).abs() <= HALF_A_DIGIT),
        "it shows {found}"
    );
}
