//! Dropout (Srivastava et al., 2014), active on devices that differentiate and nowhere else.

mod mask;

use std::cell::Cell;

use burn::module::Module;
use burn::tensor::Tensor;
use polyglow_kernels::{Dropped, add_dropped, widened};

use crate::random::Random;

/// Zeroes each element with probability `prob` and scales the others by `1 / (1 - prob)`.
///
/// It acts only on tensors of an autodiff device, so a model moved to a plain device evaluates
/// without it. The key of the forward pass decides which elements are dropped; see [`keyed`].
#[derive(Module, Debug)]
pub struct Dropout {
    prob: f64,
}

/// Runs a forward pass whose dropout follows from `key`: the same key gives the same masks,
/// whatever other threads do and whatever was drawn from the device's generator.
///
/// The key holds for the calling thread until `forward` returns or panics. Calls may be nested; the
/// outer pass then resumes where it was. Outside of `keyed`, each thread counts its draws under the
/// key 0 from its start, so such masks depend on everything that the thread dropped before.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::dropout::{Dropout, keyed};
///
/// let ones = Tensor::<1>::ones([100], &Device::flex().autodiff());
/// let dropped = |key| keyed(key, || Dropout::new(0.5).forward(ones.clone())).into_data();
/// assert_eq!(dropped(7), dropped(7));
/// assert_ne!(dropped(7), dropped(8));
/// ```
pub fn keyed<T>(key: u64, forward: impl FnOnce() -> T) -> T {
    let _outer = Restore(PASS.replace(Pass { key, num_draws: 0 }));
    forward()
}

/// The key of a forward pass, and the number of masks drawn so far.
#[derive(Clone, Copy)]
struct Pass {
    key: u64,
    num_draws: u64,
}

thread_local! {
    static PASS: Cell<Pass> = const { Cell::new(Pass { key: 0, num_draws: 0 }) };
}

/// Restores the outer pass when it is dropped, so also when a panic unwinds.
struct Restore(Pass);

impl Drop for Restore {
    fn drop(&mut self) {
        PASS.set(self.0);
    }
}

/// Returns the key of the next mask of this thread's pass, and counts it.
fn next_key() -> u64 {
    let Pass { key, num_draws } = PASS.get();
    PASS.set(Pass {
        key,
        num_draws: num_draws + 1,
    });
    Random::new(&[key, num_draws]).bits()
}

impl Dropout {
    /// Dropout with probability `prob`, which is below 1.
    pub fn new(prob: f64) -> Self {
        Self { prob }
    }

    /// Drops elements of `input`.
    ///
    /// # Shapes
    /// - `input`: any; output: as `input`
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        if self.prob == 0.0 || !input.is_autodiff() {
            return input;
        }
        let dropped = Dropped {
            keep: 1.0 - self.prob,
            key: next_key(),
        };
        if let Some(output) = polyglow_kernels::dropout(&input, dropped) {
            return output;
        }
        // The scaled mask is made outside the graph, so the backward pass holds one factor and
        // nothing else.
        input.clone() * mask::on_host(input.dims(), dropped, &input.device().inner())
    }

    /// Returns `residual` plus `input` after dropout; `input` may be in the format of
    /// [`Linear::narrow`](crate::linear::Linear::narrow).
    ///
    /// # Shapes
    /// - both: `[rows, d_model]`; output: as they are
    pub fn add(&self, residual: Tensor<2>, input: Tensor<2>) -> Tensor<2> {
        let fused = self
            .draw(&input)
            .and_then(|dropped| add_dropped(&residual, &input, dropped));
        fused.unwrap_or_else(|| residual + self.forward(widened(input)))
    }

    /// Draws the key of a mask for a kernel that makes the mask itself, of `input` or of a tensor
    /// that is computed from it. `None` if nothing is dropped.
    pub fn draw<const D: usize>(&self, input: &Tensor<D>) -> Option<Dropped> {
        let active = self.prob > 0.0 && input.is_autodiff();
        active.then(|| Dropped {
            keep: 1.0 - self.prob,
            key: next_key(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    use super::*;

    fn drop_ones(prob: f64) -> Vec<f32> {
        let ones = Tensor::<2>::ones([100, 1001], &crate::test_device().autodiff());
        Dropout::new(prob)
            .forward(ones)
            .inner()
            .into_data()
            .iter::<f32>()
            .collect()
    }

    #[test]
    fn the_key_and_the_number_of_the_draw_decide_the_mask() {
        let masks = |key| keyed(key, || [drop_ones(0.5), drop_ones(0.5)]);
        assert!(masks(7) == masks(7));
        let [first, second] = masks(7);
        assert!(first != second && first != masks(8)[0]);
    }

    #[test]
    fn threads_that_run_at_once_do_not_disturb_each_other() {
        let barrier = Barrier::new(2);
        let masks = || {
            keyed(7, || {
                (0..4)
                    .map(|_| {
                        barrier.wait();
                        drop_ones(0.3)
                    })
                    .collect::<Vec<_>>()
            })
        };
        let (left, right) = std::thread::scope(|scope| {
            let (left, right) = (scope.spawn(masks), scope.spawn(masks));
            (
                left.join().expect("it does not panic"),
                right.join().expect("it does not panic"),
            )
        });
        assert!(left == right);
    }

    #[test]
    fn the_outer_key_is_restored_after_a_pass_and_after_a_panic() {
        let expected = keyed(7, || [next_key(), next_key(), next_key()]);
        let keys = keyed(7, || {
            let first = next_key();
            keyed(8, next_key);
            let second = next_key();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                keyed(9, || std::panic::resume_unwind(Box::new(())))
            }));
            assert!(panicked.is_err());
            [first, second, next_key()]
        });
        assert_eq!(keys, expected);
    }

    #[test]
    fn nothing_is_dropped_without_autodiff() {
        let ones = Tensor::<2>::ones([4, 4], &crate::test_device());
        let values: Vec<f32> = Dropout::new(0.9)
            .forward(ones)
            .into_data()
            .iter::<f32>()
            .collect();
        assert_eq!(values, [1.0; 16]);
    }
}
