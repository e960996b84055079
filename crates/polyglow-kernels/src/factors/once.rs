//! Weights that were rounded are kept for a while, so that they are not rounded again.

use std::marker::PhantomData;

/// While it lives, weights of linear maps on GPUs with autodiff are rounded once on this thread, as in the passes of a step, in which they
/// do not change; rounded ones take memory until it is dropped. Elsewhere it does nothing.
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

#[cfg(feature = "gpu")]
pub(crate) use gpu::rounded_weight;

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

    /// [`Factors::rounded`] of a weight outside of the graph.
    pub(crate) fn rounded_weight(factors: Factors, weight: Tensor<2>) -> Tensor<2> {
        if factors == Factors::F32 {
            return weight;
        }
        let key = (Operand::from(weight.clone()).id(), factors);
        let known = ALL.with_borrow(|all| all.as_ref()?.get(&key).cloned());
        known.map_or_else(
            || {
                let rounded = factors.rounded(weight);
                ALL.with_borrow_mut(|all| all.as_mut().map(|all| all.insert(key, rounded.clone().into())));
                rounded
            },
            Operand::tensor,
        )
    }
}
