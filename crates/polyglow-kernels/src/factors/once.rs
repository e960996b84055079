//! Keeping rounded weights and inputs for the passes of a step, so that they are rounded once.

#[cfg(feature = "gpu")]
use std::collections::HashMap;
use std::marker::PhantomData;

use burn::tensor::Tensor;

use super::Factors;
#[cfg(feature = "gpu")]
use super::gpu;

/// A guard: while it lives, weights of linear maps on GPUs with autodiff are rounded once on this
/// thread, and so are the inputs that [`round_once`] is called with.
///
/// It is meant for the passes of a step, in which weights do not change. Rounded tensors take
/// memory until it is dropped. On other devices it does nothing.
#[derive(Debug)]
pub struct RoundedOnce {
    /// The tensors of the guard around this one, which gets them back: guards may nest.
    #[cfg(feature = "gpu")]
    before: Option<gpu::RoundedTensors>,
    /// Keeps the guard on its thread.
    _thread: PhantomData<*const ()>,
}

impl RoundedOnce {
    /// Returns a guard that has kept nothing so far.
    #[must_use]
    pub fn begin() -> Self {
        #[cfg(feature = "gpu")]
        let before = gpu::ROUNDED.replace(Some(HashMap::new()));
        Self {
            #[cfg(feature = "gpu")]
            before,
            _thread: PhantomData,
        }
    }

    /// Keeps the rounded version of the weight with this [name](crate::name).
    pub fn keep(&self, name: u64, factors: Factors, rounded: Tensor<2>) {
        #[cfg(feature = "gpu")]
        gpu::keep((name, factors), rounded);
        #[cfg(not(feature = "gpu"))]
        let _ = (name, factors, rounded);
    }
}

#[cfg(feature = "gpu")]
impl Drop for RoundedOnce {
    fn drop(&mut self) {
        gpu::ROUNDED.replace(self.before.take());
    }
}

/// Rounds an input for all linear maps that read it, while there is a [`RoundedOnce`]. Their
/// gradients of it are f32 in any case, and are added in f32.
pub fn round_once(input: &Tensor<2>, factors: Factors) {
    #[cfg(feature = "gpu")]
    if gpu::ROUNDED.with_borrow(Option::is_some)
        && let Some((input, _)) = crate::gpu::open(input)
    {
        gpu::rounded(factors, input);
    }
    #[cfg(not(feature = "gpu"))]
    let _ = (input, factors);
}
