//! The layers that models are built from, one per file, with the masks and number formats that they
//! share.

pub mod attention;
pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod layer_norm;
pub mod linear;
pub mod mask;
pub mod patches;
pub mod pooling;
pub mod position;
pub(crate) mod precision;
pub mod residual;
pub mod rms_norm;
pub mod weight;
