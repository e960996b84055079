//! Fused operations: what a training step spends its time on, each in few passes over memory and on all cores.
//!
//! Every operation is one function that asks where its tensors are. On the backend flex it runs a kernel, with autodiff one
//! with a backward pass of its own. Elsewhere it is the plain version in terms of Burn's operations; or, where the caller
//! has that version already, none. Kernels are tested against the plain versions.
//!
//! Kernels give the same bits with any number of threads: work is divided by rows, a row is summed in lanes of a fixed
//! number, and sums over rows are taken in their order.

#![cfg_attr(
    feature = "flex",
    expect(clippy::inline_always, reason = "a loop that is not inlined is compiled for the smallest instruction set")
)]

mod activation;
mod adam;
mod additive;
mod attention;
mod cross_entropy;
mod dropout;
mod embedding;
#[cfg(feature = "flex")]
mod flex;
mod int8;
mod layer_norm;
mod linear;
mod log_sum_exp;
#[cfg(feature = "flex")]
mod matrix;
mod projected_cross_entropy;
mod recurrent;
#[cfg(feature = "flex")]
mod row;
#[cfg(feature = "flex")]
mod softmax;
mod tanh;
#[cfg(feature = "flex")]
mod vector;

pub use activation::{Activation, activated_linear, gated};
pub use adam::{AdamState, AdamStep, WeightDecay, adam};
pub use additive::additive_weights;
pub use attention::{FORBIDDEN, cached_attention, caches_side_by_side, cross_attention, self_attention};
pub use cross_entropy::{LossOutput, cross_entropy};
pub use dropout::{Dropped, add_dropped};
pub use embedding::embedding;
pub use int8::{
    Int8Matrix, Int8Weights, MOST_INT8_INPUTS, has_int8_kernels, int8_embedding, int8_linear, int8_linear_relu,
};
pub use layer_norm::layer_norm;
pub use linear::{Layout, linear, linear_transposed};
pub use log_sum_exp::log_sum_exp;
pub use projected_cross_entropy::{MOST_ROWS, projected_cross_entropy};
pub use recurrent::{Cell, Direction, recurrent_layer, recurrent_step};
pub use tanh::tanh;
