//! What was rounded is kept for a while, so that it is not rounded again.

#[cfg(feature = "gpu")]
use std::collections::HashMap;
use std::marker::PhantomData;

use burn::tensor::Tensor;

use super::Factors;
#[cfg(feature = "gpu")]
use super::gpu;

/// While it lives, weights of linear maps on GPUs with autodiff are rounded once on this thread, as
/// in the passes of a step, in which they do not change, and so is what [`round_once`] names;
/// rounded ones take memory until it is dropped. Elsewhere it does nothing.
#[derive(Debug)]
pub struct RoundedOnce {
    /// What another one has, within which this one lives.
    #[cfg(feature = "gpu")]
    before: Option<gpu::All>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl RoundedOnce {
    /// Begins with nothing.
    #[must_use]
    pub fn begin() -> Self {
        #[cfg(feature = "gpu")]
        let before = gpu::ALL.replace(Some(HashMap::new()));
        Self {
            #[cfg(feature = "gpu")]
            before,
            _thread: PhantomData,
        }
    }

    /// Keeps what a weight of this [name](crate::name) was rounded to.
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
        gpu::ALL.replace(self.before.take());
    }
}

/// Has an input that several linear maps read rounded for all of them, while there is a
/// [`RoundedOnce`]. The slopes of each are f32 in any case, and are added so.
pub fn round_once(input: &Tensor<2>, factors: Factors) {
    #[cfg(feature = "gpu")]
    if gpu::ALL.with_borrow(Option::is_some)
        && let Some((input, _)) = crate::gpu::open(input)
    {
        gpu::rounded(factors, input);
    }
    #[cfg(not(feature = "gpu"))]
    let _ = (input, factors);
}
