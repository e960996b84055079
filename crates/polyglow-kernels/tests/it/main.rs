//! What holds for the kernels as their callers see them.
#![cfg(feature = "flex")]

mod gradients;
mod instructions;
