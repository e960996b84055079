//! Stacks of layers: encoders and decoders, and the caches of decoders.

pub mod cache;
pub mod decoder;
pub mod encoder;
pub mod recurrent;
