//! Fused operations for the CPU, and for training on GPUs: the operations that a training step or a
//! search spends its time on, in few passes over memory and on all cores.
//!
//! Each operation is one function on Burn's tensors, and decides by their device how it runs:
//! - **flex with autodiff**: a kernel with a closed-form backward pass. The graph holds one node
//!   for the whole operation, with only the tensors that its gradients need.
//! - **flex without autodiff**: the same kernel, or one for few rows. It keeps nothing except
//!   copies of weights in a [`Packed`].
//! - **GPUs with autodiff**: kernels in CubeCL, or Burn's operations in an order that is fused,
//!   with the same closed forms.
//! - **anything else** (another backend, gradient checkpointing, a build without the feature `flex`
//!   or with `plain`): the plain version in terms of Burn's operations. If the caller has that
//!   version already, the function returns `None`.
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use polyglow_kernels::{Factors, cross_entropy, linear};
//!
//! let device = Device::flex().autodiff();
//! let states = Tensor::<2>::ones([3, 8], &device); // [rows, d_model]
//! let weight = Tensor::<2>::zeros([8, 5], &device).require_grad(); // [d_model, vocab_size]
//! let targets = Tensor::<1, Int>::from_data([4, 1, 0], &device); // the last row is padding
//! let loss = cross_entropy(linear(states, weight.clone(), None, Factors::F32), targets, 0.0, 0);
//! let gradients = loss.loss_sum.backward();
//! assert_eq!(weight.grad(&gradients).map(|gradient| gradient.dims()), Some([8, 5]));
//! ```
//!
//! # Where things are
//! For an operation `x`, `x.rs` has its contract, its formulas and its plain version; `x/flex.rs`
//! has the kernel and the backward pass for the CPU, and `x/gpu.rs` those for GPUs, with the code
//! in CubeCL in `x/gpu/kernel.rs`. Each kernel file begins with what it computes, how memory is
//! laid out, and why.
//!
//! Kernels for the CPU share `flex`: tensors as slices and nodes of the graph, `matrix` (products
//! by the crate `gemm`, with factors in bf16, and with packed weights), `vector` (loops that
//! compile to SIMD instructions), `row` (sums over rows) and `softmax`. Kernels for GPUs share
//! `gpu`: nodes of the graph, `operation` (launches in the queue of Burn's fusion), `rows` (sums of
//! rows) and `vector`.
//! Documentation of GPU code says *thread* and *workgroup* for what CubeCL's API calls unit and
//! cube.
//!
//! Unit tests compare every kernel for the CPU with its plain version, and `tests/` compares every
//! gradient with differences of the forward pass; `polyglow-bench compare` compares kernels for GPUs
//! with the CPU's.
//!
//! # Reproducibility
//! A kernel gives the same bits with any number of threads: tasks are whole rows or blocks of a
//! fixed number of rows, a row is summed in a fixed number of lanes, and sums over rows add blocks
//! in their order. Products depend on the kind of instructions.

#![cfg_attr(
    feature = "flex",
    expect(
        clippy::inline_always,
        reason = "a loop that is not inlined is compiled for the smallest instruction set"
    )
)]
#![cfg_attr(
    feature = "gpu",
    expect(
        clippy::needless_pass_by_value,
        clippy::trivially_copy_pass_by_ref,
        clippy::used_underscore_binding,
        reason = "arguments of CubeCL kernels are not what their Rust types say"
    )
)]

/// Returns the name of the widest SIMD instructions that kernels use: the widest of the CPU, but
/// nothing wider than AVX2 in a build without the feature `avx512`. Returns `None` in a build
/// without the feature `flex`, which has no kernels.
#[must_use]
pub fn instruction_set() -> Option<&'static str> {
    #[cfg(feature = "flex")]
    return Some(flex::vector::instruction_set());
    #[cfg(not(feature = "flex"))]
    None
}

/// Calls a kernel that returns `None` if it cannot run: `flex::f` alone, or `flex::f` and then
/// `gpu::f` if only the function is named. In a build without the feature the result is `None`.
macro_rules! kernel {
    ($function:ident($($argument:ident),+)) => {{
        let output = kernel!(flex::$function($($argument),+));
        #[cfg(feature = "gpu")]
        let output = output.or_else(|| gpu::$function($($argument),+));
        output
    }};
    ($module:ident::$function:ident($($argument:ident),+)) => {{
        #[cfg(feature = "flex")]
        let output = $module::$function($($argument),+);
        #[cfg(not(feature = "flex"))]
        let output = {
            let _ = ($($argument),+);
            None
        };
        output
    }};
}

mod activation;
mod adam;
mod additive;
mod attention;
mod compile_only;
mod cross_entropy;
mod dropout;
mod embedding;
mod factors;
mod int8;
mod joined;
mod layer_norm;
mod linear;
mod log_sum_exp;
mod recurrent;
mod square_sum;
mod tanh;

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "gpu")]
mod gpu;

pub use activation::{Activation, activated_linear, gated};
pub use adam::{AdamState, AdamStep, WeightDecay, adam};
pub use additive::additive_weights;
pub use attention::cache::KeyValueCache;
pub use attention::{FORBIDDEN, cross_attention, self_attention};
pub use compile_only::CompileOnly;
pub use cross_entropy::projected::{projected_cross_entropy, rows_per_chunk};
pub use cross_entropy::targets::Targets;
pub use cross_entropy::{LossOutput, cross_entropy};
pub use dropout::{Dropped, add_dropped, dropout};
pub use embedding::embedding;
pub use factors::{
    Factors, RoundedOnce, has_bf16_products, has_training_kernels, round_once, widened,
};
pub use int8::{
    Int8Matrix, Int8Weights, MOST_INT8_INPUTS, has_int8_kernels, int8_embedding, int8_linear,
    int8_linear_relu,
};
pub use joined::{joined, name};
pub use layer_norm::{layer_norm, residual_norm};
#[cfg(feature = "cublaslt")]
pub use linear::ProductObservation;
pub use linear::{Layout, Packed, linear, linear_transposed, repeated_linear};
pub use log_sum_exp::log_sum_exp;
pub use recurrent::{Cell, Direction, recurrent_layer, recurrent_step};
pub use square_sum::square_sums;
pub use tanh::tanh;
