//! Rounding of factors on GPUs, by a kernel of its own, and once for all products of a step.
//!
//! Where Burn's cast stands right before a product, the fusion plans both together, finds no kernel
//! for them, and then does not fuse what follows the product either. A custom operation separates
//! them.
//!
//! While there is a [`RoundedOnce`](super::RoundedOnce), rounded tensors are kept in a map of this
//! thread, by the identity of the tensor and the format.

use std::cell::RefCell;
use std::collections::HashMap;

use burn::backend::Cube;
use burn::tensor::Tensor;

use super::Factors;
use crate::dropout::gpu::drop_and_add;
use crate::gpu::operation::Operand;

/// The [name](crate::name) of a tensor and the format that it was rounded to.
type Key = (u64, Factors);
/// Rounded tensors, kept for the products of a step.
pub(super) type RoundedTensors = HashMap<Key, Operand>;

thread_local! {
    /// `None` while there is no [`RoundedOnce`](super::RoundedOnce).
    pub(super) static ROUNDED: RefCell<Option<RoundedTensors>> = const { RefCell::new(None) };
}

/// Returns [`Factors::rounded`] of a tensor outside of the graph, and keeps it for the next call.
pub(crate) fn rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let name = name(&tensor);
    let rounded = kept_or_rounded(factors, tensor);
    if let Some(name) = name {
        keep((name, factors), rounded.clone());
    }
    rounded
}

/// Keeps a rounded tensor, if there is a [`RoundedOnce`](super::RoundedOnce).
pub(super) fn keep(key: Key, rounded: Tensor<2>) {
    // In f32 nothing is rounded, and keeping the tensor would only hold its memory.
    if key.1 != Factors::F32 {
        ROUNDED.with_borrow_mut(|tensors| {
            tensors
                .as_mut()
                .map(|tensors| tensors.insert(key, rounded.into()))
        });
    }
}

/// Returns [`Factors::rounded`] of a tensor outside of the graph, by the kept one if there is one.
pub(crate) fn kept_or_rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let Some(name) = name(&tensor) else {
        return factors.rounded(tensor);
    };
    let kept = ROUNDED.with_borrow(|tensors| tensors.as_ref()?.get(&(name, factors)).cloned());
    kept.map_or_else(|| rounded_by_kernel(factors, tensor), Operand::tensor)
}

/// The name of a tensor; `None` if it is not on a GPU.
fn name(tensor: &Tensor<2>) -> Option<u64> {
    tensor.clone().try_into_primitive::<Cube>().ok()?;
    Some(Operand::from(tensor.clone()).id().value())
}

/// Returns [`Factors::rounded`] by a kernel of its own.
fn rounded_by_kernel(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let dtype = factors.dtype().into();
    if tensor.dtype() == dtype {
        tensor
    } else {
        drop_and_add("rounded", None, tensor, dtype, None)
    }
}
