//! The affine map `y = x W + b` of every row, which is most of a Transformer's arithmetic.
//!
//! With `x` of `[rows, d_in]`, `W` of `[d_in, d_out]` and `g` the gradient of `y`, the gradients
//! are `g Wᵀ` of `x`, `xᵀ g` of `W` and the sum of the rows of `g` of `b`: three products in all,
//! with rounded factors if [`Factors`] says so. The weight may also be stored as `[d_out, d_in]`
//! ([`Layout`]), as an embedding is that serves as output projection; it is then read through
//! swapped strides and never transposed in memory.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

use std::fmt;
#[cfg(feature = "flex")]
use std::sync::{Arc, Mutex};

use burn::tensor::{FloatDType, Tensor};

use crate::factors::{Factors, cast};

#[cfg(feature = "flex")]
pub(crate) use flex::{LinearState, Sizes, repeated_product};
#[cfg(feature = "cublaslt")]
pub use gpu::ProductObservation;
#[cfg(feature = "gpu")]
pub(crate) use gpu::{GpuFactors, through_relu};

/// The order of the axes of a weight matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `[d_in, d_out]`.
    InOut,
    /// `[d_out, d_in]`.
    OutIn,
}

/// Returns `x W + b` for every row, without `b` if it is `None`.
///
/// `factors` says what the factors of the product and of its gradients are rounded to; on GPUs with
/// autodiff the output is in that format, everywhere else in f32.
///
/// With `g` the gradient of the output, the gradients are `g Wᵀ` of `x`, `xᵀ g` of `W`, and the sum
/// of the rows of `g` of `b`.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`; output: `[rows, d_out]`
///
/// # Examples
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_kernels::{Factors, linear};
///
/// let device = Device::flex().autodiff();
/// // A batch of sequences, `[batch, len, d_in]`, is flattened to rows.
/// let input = Tensor::<3>::ones([2, 3, 4], &device).reshape([6, 4]);
/// let weight = Tensor::<2>::ones([4, 5], &device).require_grad(); // [d_in, d_out]
/// let bias = Tensor::<1>::ones([5], &device).require_grad();
/// let output = linear(input, weight.clone(), Some(bias.clone()), Factors::F32);
/// assert!(output.clone().into_data().iter::<f32>().all(|value| value == 5.0));
/// let gradients = output.sum().backward();
/// let gradient = bias.grad(&gradients).expect("the output depends on it").into_data();
/// assert!(gradient.iter::<f32>().all(|element| element == 6.0)); // once for each row
/// ```
pub fn linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    factors: Factors,
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input).is_some() {
        return flex::linear(input, weight, bias, Layout::InOut, factors);
    }
    #[cfg(feature = "gpu")]
    if let Some(output) = gpu::linear(&input, &weight, bias.as_ref(), Layout::InOut, factors) {
        return output;
    }
    if factors == Factors::F32 && !is_on_gpu(&input) {
        return burn::tensor::module::linear(input, weight, bias);
    }
    let [input, weight] = [input, weight].map(|factor| factors.rounded(factor));
    let output = product(input, weight, FloatDType::F32);
    match bias {
        Some(bias) => output + bias.unsqueeze(),
        None => output,
    }
}

/// Returns `x Wᵀ` for every row: the output projection where it shares its matrix with the
/// embedding.
///
/// With `g` the gradient of the output, the gradients are `g W` of `x` and `gᵀ x` of `W`.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `weight`: `[d_out, d_in]`; output: `[rows, d_out]`
pub fn linear_transposed(input: Tensor<2>, weight: Tensor<2>, factors: Factors) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input).is_some() {
        return flex::linear(input, weight, None, Layout::OutIn, factors);
    }
    #[cfg(feature = "gpu")]
    if let Some(output) = gpu::linear(&input, &weight, None, Layout::OutIn, factors) {
        return output;
    }
    // Rounded before it is transposed, so that the cast reads memory in order.
    let [input, weight] = [input, weight].map(|factor| factors.rounded(factor));
    product(input, weight.transpose(), FloatDType::F32)
}

/// Returns `leftᵀ right` in f32.
///
/// # Shapes
/// - `left`: `[terms, rows]`; `right`: `[terms, columns]`, contiguous
pub(crate) fn product_of_columns(left: Tensor<2>, right: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if is_on_gpu(&left) {
        return gpu::product_of_columns(left, right);
    }
    cast(left.transpose().matmul(right), FloatDType::F32)
}

/// Returns the product of two matrices with elements of `dtype`.
pub(crate) fn product(left: Tensor<2>, right: Tensor<2>, dtype: FloatDType) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if is_on_gpu(&left) {
        return gpu::product(left, right, dtype);
    }
    cast(left.matmul(right), dtype)
}

/// Whether a tensor is on a GPU, and outside of the graph.
fn is_on_gpu(tensor: &Tensor<2>) -> bool {
    #[cfg(feature = "gpu")]
    return !cfg!(feature = "plain")
        && tensor
            .clone()
            .try_into_primitive::<burn::backend::Cube>()
            .is_ok();
    #[cfg(not(feature = "gpu"))]
    {
        let _ = tensor;
        false
    }
}

/// A copy of a weight in the order that products read it in, which [`repeated_linear`] and
/// [`activated_linear`](crate::activated_linear) keep from call to call. It begins empty, and so
/// does a clone.
#[derive(Default)]
pub struct Packed {
    #[cfg(feature = "flex")]
    weight: Mutex<Option<Arc<flex::PackedWeight>>>,
}

impl Clone for Packed {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Writes the name alone: the elements are those of the weight.
impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Packed")
    }
}

/// Returns [`linear`], or [`linear_transposed`] with [`Layout::OutIn`], for a weight that is
/// multiplied by many times, as in a search.
///
/// On flex without autodiff the first call copies the weight into `packed`, and later calls
/// multiply by the copy; a call with another weight replaces it.
///
/// # Shapes
/// - as in [`linear`], with `weight` in the order of `layout`
///
/// # Panics
/// There is a bias, and the layout is [`Layout::OutIn`].
pub fn repeated_linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    layout: Layout,
    factors: Factors,
    packed: &Packed,
) -> Tensor<2> {
    assert!(
        layout == Layout::InOut || bias.is_none(),
        "a transposed linear map has no bias"
    );
    #[cfg(feature = "flex")]
    if let Some(output) =
        flex::repeated_linear(&input, &weight, bias.as_ref(), layout, factors, packed)
    {
        return output;
    }
    let _ = packed;
    match layout {
        Layout::InOut => linear(input, weight, bias, factors),
        Layout::OutIn => linear_transposed(input, weight, factors),
    }
}
