//! On GPUs: rounded by a kernel of its own, and once.
//!
//! Where Burn's cast stands right before a product, the fusion plans the two together, finds no
//! kernel for both, and leaves out what could be fused with the product.

use std::cell::RefCell;
use std::collections::HashMap;

use burn::backend::Cube;
use burn::tensor::Tensor;

use super::Factors;
use crate::dropout::gpu::drop_and_add;
use crate::gpu::operation::Operand;

/// What was rounded, by its [name](crate::name), and to what.
type Key = (u64, Factors);
pub(super) type All = HashMap<Key, Operand>;

thread_local! {
    /// `None` while there is no [`RoundedOnce`](super::RoundedOnce).
    pub(super) static ALL: RefCell<Option<All>> = const { RefCell::new(None) };
}

/// [`Factors::rounded`] of a tensor outside of the graph, kept for the next time.
pub(crate) fn rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let name = name(&tensor);
    let rounded = known_or_rounded(factors, tensor);
    if let Some(name) = name {
        keep((name, factors), rounded.clone());
    }
    rounded
}

pub(super) fn keep(key: Key, rounded: Tensor<2>) {
    if key.1 != Factors::F32 {
        ALL.with_borrow_mut(|all| all.as_mut().map(|all| all.insert(key, rounded.into())));
    }
}

/// [`Factors::rounded`] of a tensor outside of the graph.
pub(crate) fn known_or_rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let Some(name) = name(&tensor) else {
        return factors.rounded(tensor);
    };
    let known = ALL.with_borrow(|all| all.as_ref()?.get(&(name, factors)).cloned());
    known.map_or_else(|| alone(factors, tensor), Operand::tensor)
}

/// `None` where it is not on a GPU.
fn name(tensor: &Tensor<2>) -> Option<u64> {
    tensor.clone().try_into_primitive::<Cube>().ok()?;
    Some(Operand::from(tensor.clone()).id().value())
}

/// [`Factors::rounded`] in a kernel of its own.
fn alone(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
    let dtype = factors.dtype().into();
    if tensor.dtype() == dtype {
        tensor
    } else {
        drop_and_add("rounded", None, tensor, dtype, None)
    }
}
