//! Tests of the kernels through the public functions.
#![cfg(feature = "flex")]

mod gradients;
mod instructions;
