//! Fused operations: what a training step spends its time on beside matrix products, each in one pass over memory and on
//! all cores.
//!
//! Every operation is one function that asks where its tensors are: on the backend flex with autodiff it runs a kernel
//! with a backward pass of its own, everywhere else the plain version in terms of Burn's operations, which is also what
//! the kernel is tested against.
//!
//! Kernels give the same bits with any number of threads: work is divided by rows, a row is summed in the order of its
//! [`vector`] lanes, and sums over rows are taken in their order.

mod adam;
mod attention;
mod cross_entropy;
mod dropout;
#[cfg(feature = "flex")]
mod flex;
mod layer_norm;
mod linear;
#[cfg(feature = "flex")]
mod matrix;
#[cfg(feature = "flex")]
mod rows;
#[cfg(feature = "flex")]
mod vector;

pub use adam::{AdamState, AdamStep, WeightDecay, adam};
pub use attention::{cross_attention, self_attention};
pub use cross_entropy::{LossOutput, cross_entropy};
pub use dropout::{Dropped, add_dropped};
pub use layer_norm::layer_norm;
pub use linear::{linear, linear_transposed};
