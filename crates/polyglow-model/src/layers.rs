//! One layer per file: what models are built from, and the masks and number formats that layers
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
pub mod weight;
