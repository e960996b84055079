//! What was rounded is kept for a while, so that it is not rounded again.

use std::marker::PhantomData;

use burn::tensor::Tensor;

use crate::Factors;

/// While it lives, weights of linear maps on GPUs with autodiff are rounded once on this thread, as in the passes of a step, in which they
/// do not change, and so is what [`round_once`] names; rounded ones take memory until it is dropped. Elsewhere it does nothing.
#[derive(Debug)]
pub struct RoundedOnce {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl RoundedOnce {
    /// Begins with nothing.
    #[must_use]
    pub fn begin() -> Self {
        #[cfg(feature = "gpu")]
        gpu::ALL.with_borrow_mut(|all| *all = Some(gpu::Rounded::new()));
        Self { _thread: PhantomData }
    }
}

#[cfg(feature = "gpu")]
impl Drop for RoundedOnce {
    fn drop(&mut self) {
        gpu::ALL.with_borrow_mut(|all| *all = None);
    }
}

/// Has an input that several linear maps read rounded for all of them, while there is a [`RoundedOnce`]. The slopes of each are f32 in any
/// case, and are added so.
pub fn round_once(input: &Tensor<2>, factors: Factors) {
    #[cfg(feature = "gpu")]
    if let Some((input, _)) = crate::gpu::open(input) {
        gpu::rounded(factors, input);
    }
    #[cfg(not(feature = "gpu"))]
    let _ = (input, factors);
}

#[cfg(feature = "gpu")]
pub(crate) use gpu::{known_or_rounded, rounded};

#[cfg(feature = "gpu")]
mod gpu {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use burn::backend::fusion::custom::TensorId;
    use burn::tensor::Tensor;

    use crate::Factors;
    use crate::gpu::operation::Operand;

    /// By what was rounded, of which no two have the same id, and to what.
    pub(super) type Rounded = HashMap<(TensorId, Factors), Operand>;

    thread_local! {
        pub(super) static ALL: RefCell<Option<Rounded>> = const { RefCell::new(None) };
    }

    /// [`Factors::rounded`] of a tensor outside of the graph, kept for the next time.
    pub(crate) fn rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
        let key = key(factors, &tensor);
        let rounded = known_or_rounded(factors, tensor);
        if factors != Factors::F32 {
            ALL.with_borrow_mut(|all| all.as_mut().map(|all| all.insert(key, rounded.clone().into())));
        }
        rounded
    }

    /// [`Factors::rounded`] of a tensor outside of the graph.
    pub(crate) fn known_or_rounded(factors: Factors, tensor: Tensor<2>) -> Tensor<2> {
        let known = ALL.with_borrow(|all| all.as_ref()?.get(&key(factors, &tensor)).cloned());
        known.map_or_else(|| factors.rounded(tensor), Operand::tensor)
    }

    fn key(factors: Factors, tensor: &Tensor<2>) -> (TensorId, Factors) {
        (Operand::from(tensor.clone()).id(), factors)
    }
}
