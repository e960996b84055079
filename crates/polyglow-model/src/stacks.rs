//! Layers upon layers: encoders and decoders, and what a decoder keeps between positions.

pub mod cache;
pub mod decoder;
pub mod encoder;
pub mod recurrent;
